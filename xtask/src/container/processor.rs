//! Processors that an image is for, and the tools that build and run programs for them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command;

/// Rust's name of the other processor's programs, and of the tools of GNU for it.
const ARM64: &str = "aarch64-unknown-linux-gnu";
const ARM64_TOOLS: &str = "aarch64-linux-gnu";
/// Shared libraries of the Debian packages for cross builds, and the loader among them.
const ARM64_LIBRARIES: &str = "/usr/aarch64-linux-gnu/lib";
const ARM64_LOADER: &str = "ld-linux-aarch64.so.1";
/// Runs a program of that processor. It is linked statically, so it also runs in an image.
const ARM64_RUNNER: &str = "/usr/bin/qemu-aarch64-static";

/// Processor of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processor {
    /// That of this machine.
    Own,
    /// 64-bit ARM, by cross tools and an emulator.
    Arm64,
}

/// A shared library of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Library {
    /// File on this machine.
    pub(super) file: PathBuf,
    /// Path in the image, from its root.
    pub(super) inside: PathBuf,
}

impl Processor {
    /// Name of the folder for its builds.
    pub(super) const fn folder(self) -> &'static str {
        match self {
            Self::Own => "image-build",
            Self::Arm64 => "image-build-arm64",
        }
    }

    /// Target for Cargo, if it is not this machine's.
    pub(super) const fn target(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Arm64 => Some(ARM64),
        }
    }

    /// Variables that name the tools of a build.
    pub(super) fn build_variables(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Own => Vec::new(),
            Self::Arm64 => vec![
                (
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                    format!("{ARM64_TOOLS}-gcc"),
                ),
                ("CC_aarch64_unknown_linux_gnu", format!("{ARM64_TOOLS}-gcc")),
                ("AR_aarch64_unknown_linux_gnu", format!("{ARM64_TOOLS}-ar")),
            ],
        }
    }

    /// Name in an image's configuration.
    pub(super) fn name(self) -> Result<&'static str> {
        match (self, std::env::consts::ARCH) {
            (Self::Arm64, _) | (_, "aarch64") => Ok("arm64"),
            (Self::Own, "x86_64") => Ok("amd64"),
            (Self::Own, other) => bail!("no image is made for {other}"),
        }
    }

    /// Program that removes symbols.
    pub(super) fn strip(self) -> String {
        match self {
            Self::Own => "strip".to_owned(),
            Self::Arm64 => format!("{ARM64_TOOLS}-strip"),
        }
    }

    /// Emulator for its programs, if this machine cannot run them.
    pub(super) fn runner(self) -> Option<&'static Path> {
        (self == Self::Arm64).then(|| Path::new(ARM64_RUNNER))
    }

    /// Debian packages whose files are in its image.
    pub(super) const fn packages(self) -> &'static str {
        match self {
            Self::Own => "libc6 libgcc-s1 ca-certificates tzdata",
            Self::Arm64 => "libc6-arm64-cross libgcc-s1-arm64-cross ca-certificates tzdata",
        }
    }

    /// Shared libraries of a program, and its loader.
    pub(super) fn libraries(self, program: &Path, root: &Path) -> Result<Vec<Library>> {
        let line = match self {
            Self::Own => format!("ldd {}", program.display()),
            Self::Arm64 => format!(
                "{ARM64_RUNNER} {ARM64_LIBRARIES}/{ARM64_LOADER} --library-path {ARM64_LIBRARIES} --list {}",
                program.display()
            ),
        };
        let output = command::read(&line, root)?;
        let paths = library_paths(&output)?;
        match self {
            Self::Own => Ok(paths
                .into_iter()
                .map(|path| Library {
                    file: PathBuf::from(path),
                    inside: PathBuf::from(&path[1..]),
                })
                .collect()),
            Self::Arm64 => paths.into_iter().map(arm64_library).collect(),
        }
    }
}

/// The packages for cross builds have all libraries in one folder, and the loader also looks in `/lib`.
fn arm64_library(path: &str) -> Result<Library> {
    let name = Path::new(path)
        .file_name()
        .context("a library has a name")?;
    Ok(Library {
        file: Path::new(ARM64_LIBRARIES).join(name),
        inside: Path::new("lib").join(name),
    })
}

/// Paths of the libraries, and of the loader, in the output of `ldd`.
fn library_paths(output: &str) -> Result<Vec<&str>> {
    let mut found = Vec::new();
    for line in output.lines().map(str::trim) {
        if line.contains("not found") {
            bail!("a shared library is missing: {line}");
        }
        // The kernel's own `linux-vdso` has no file.
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        found.extend(path);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_loader_are_found_and_a_missing_one_is_an_error() {
        let output = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        let expected = ["/lib/x/libm.so.6", "/lib64/ld-linux.so.2"];
        assert_eq!(library_paths(output).unwrap(), expected);
        assert!(library_paths("\tstatically linked\n").unwrap().is_empty());
        let error = library_paths("\tlibz.so.1 => not found\n").unwrap_err();
        assert!(error.to_string().contains("libz.so.1"), "{error}");
    }

    #[test]
    fn libraries_of_the_other_processor_are_those_of_the_cross_packages() {
        for path in [
            "/lib/ld-linux-aarch64.so.1",
            "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
        ] {
            let expected = Library {
                file: PathBuf::from("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1"),
                inside: PathBuf::from("lib/ld-linux-aarch64.so.1"),
            };
            assert_eq!(arm64_library(path).unwrap(), expected);
        }
    }
}
