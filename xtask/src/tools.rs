//! The parts of the toolchain that a minimal Rust installation leaves out.

use std::path::Path;

use anyhow::{Result, bail};

use crate::steps::{Call, Done};

/// rustfmt and clippy: added when missing, if we `may_install`, and asked for otherwise.
pub(crate) fn components(root: &Path, may_install: bool) -> Result<Done> {
    for (component, probe) in [
        ("rustfmt", "cargo fmt --version"),
        ("clippy", "cargo clippy --version"),
    ] {
        provide(
            root,
            probe,
            &format!("rustup component add {component}"),
            may_install,
        )?;
    }
    Ok(Done::Passed)
}

fn provide(root: &Path, probe: &str, install: &str, may_install: bool) -> Result<()> {
    let probe = Call::new(probe);
    if probe.succeeds(root) {
        return Ok(());
    }
    if !may_install {
        bail!("`{probe}` does not run; install it with\n    {install}");
    }
    Call::new(install).run(root)?;
    if !probe.succeeds(root) {
        bail!("`{install}` went through, yet `{probe}` does not run");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(probe: &str, install: &str, may_install: bool) -> Result<(), String> {
        provide(Path::new("."), probe, install, may_install).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_there_is_left_alone() {
        assert_eq!(check("true", "false", true), Ok(()));
    }

    #[test]
    fn what_is_missing_is_only_asked_for_when_nothing_may_be_installed() {
        let message = check("false", "touch nothing", false).unwrap_err();
        assert!(message.contains("touch nothing"), "{message}");
    }

    #[test]
    fn what_is_missing_is_installed_and_probed_again() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("tool");
        let (probe, install) = (
            format!("test -f {}", marker.display()),
            format!("touch {}", marker.display()),
        );
        assert_eq!(check(&probe, &install, true), Ok(()));
        assert!(marker.exists());
        assert!(
            check("false", "true", true)
                .unwrap_err()
                .contains("went through")
        );
    }
}
