//! Writes the folder that the Containerfile copies from: program, shared libraries, certificates, time zones, licence
//! and list of parts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::processor::Processor;
use super::sbom;
use crate::command;

/// Trusted certificates and time zones, from the Debian packages `ca-certificates` and `tzdata`.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const ZONES: &str = "/usr/share/zoneinfo";
/// Other forms of the same zones.
const OTHER_ZONES: [&str; 2] = ["posix", "right"];

const PASSWD: &str = "root:x:0:0:root:/:/sbin/nologin\n\
    qiang:x:65532:65532:Qiang:/var/lib/qiang:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nqiang:x:65532:\n";
/// Names are looked up in /etc/hosts and by DNS.
const NSSWITCH: &str = "hosts: files dns\n";

/// Refills the folder for a program.
pub(super) fn write(
    root: &Path,
    program: &Path,
    processor: Processor,
    context: &Path,
) -> Result<()> {
    drop(fs::remove_dir_all(context));
    let image = context.join("root");
    // Mount points of a root file system that cannot be written.
    for folder in ["dev", "proc", "run", "sys", "tmp", "etc/qiang", "var/lib"] {
        fs::create_dir_all(image.join(folder))?;
    }
    fs::create_dir_all(context.join("data"))?;

    let copied = image.join("usr/local/bin/qiang");
    copy(program, &copied)?;
    let strip = processor.strip();
    command::run(&format!("{strip} --strip-all {}", copied.display()), root)?;
    // The libraries of a stripped program are those of the whole one.
    for library in processor.libraries(program, root)? {
        copy(&library.file, &image.join(&library.inside))?;
    }
    copy(Path::new(CERTIFICATES), &image.join(&CERTIFICATES[1..]))?;
    let zones = image.join("usr/share");
    fs::create_dir_all(&zones)?;
    command::run(&format!("cp -rL {ZONES} {}", zones.display()), root)?;
    for other in OTHER_ZONES {
        drop(fs::remove_dir_all(zones.join("zoneinfo").join(other)));
    }
    for (file, text) in [
        ("passwd", PASSWD),
        ("group", GROUP),
        ("nsswitch.conf", NSSWITCH),
    ] {
        fs::write(image.join("etc").join(file), text)?;
    }
    let documents = image.join("usr/share/doc/qiang");
    copy(&root.join("LICENSE"), &documents.join("LICENSE"))?;
    fs::write(
        documents.join("sbom.cdx.json"),
        sbom::read(root, processor)?,
    )?;
    set_modes(context, &copied)
}

/// Copies a file, and creates the folder that it goes to.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {}", from.display()))
}

/// Sets modes that depend on no umask and on no file of the machine: only the program and libraries are executable.
fn set_modes(folder: &Path, program: &Path) -> Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            set_modes(&path, program)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_executable = path == program || name.contains(".so");
        let mode = if is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_do_not_depend_on_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("lib")).unwrap();
        for name in ["program", "lib/libm.so.6", "text"] {
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o700)).unwrap();
        }
        set_modes(folder.path(), &at("program")).unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
        let modes = ["", "lib", "program", "lib/libm.so.6", "text"].map(mode);
        assert_eq!(modes, [0o755, 0o755, 0o755, 0o755, 0o644]);
    }
}
