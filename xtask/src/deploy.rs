//! `cargo xtask deploy`: checks the compose file and the Helm chart of `deploy/` with Helm's library, Kubernetes'
//! schemas and the program. `xtask/deploy` has the check and the pinned versions of its tools.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::api::{MINUTES_MAX, install_once};
use crate::command;
use crate::faults::target;
use crate::steps::Done;

const SOURCES: &str = "xtask/deploy";

/// Builds the program and checks the files.
pub(crate) fn run(root: &Path) -> Result<()> {
    install(root)?;
    command::run("cargo build -p qiang --all-features", root)?;
    run_built(root)
}

/// Installs the tools, unless the pinned versions are installed already.
pub(crate) fn install(root: &Path) -> Result<Done> {
    let requirements = root.join(SOURCES).join("requirements.txt");
    install_once(&tools(root)?, &[&requirements], |folder| {
        command::run(&format!("python3 -m venv {}", folder.display()), root)?;
        let line = format!(
            "{MINUTES_MAX} {}/bin/pip install --quiet --disable-pip-version-check --require-hashes \
             --only-binary :all: -r {}",
            folder.display(),
            requirements.display()
        );
        command::run(&line, root).with_context(|| {
            format!(
                "allow pip to install {SOURCES}/requirements.txt, from PyPI or the configured index"
            )
        })
    })?;
    Ok(Done::Passed)
}

/// Checks the files with the program of the tests' build.
pub(crate) fn run_built(root: &Path) -> Result<()> {
    let line = format!(
        "{}/bin/python {SOURCES}/check.py {} {}",
        tools(root)?.display(),
        root.display(),
        target(root)?.join("debug/qiang").display()
    );
    command::run(&line, root)
}

fn tools(root: &Path) -> Result<PathBuf> {
    Ok(target(root)?.join("deploy-tools"))
}
