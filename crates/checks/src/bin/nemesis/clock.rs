//! Wall clock of all processes under test, which the run can step. It is a library that is loaded before the C library.
//!
//! Environment variables are inherited, and the fixtures have no way to set them. So this program restarts itself with
//! the library loaded.

use std::{
    fs, io,
    os::unix::{
        fs::{FileExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// Variable with the path of the offset file, as in `clock.c`.
const OFFSET: &str = "QIANG_CLOCK_OFFSET";
const SOURCE: &str = include_str!("clock.c");
const FILE: &str = "offset";
const NANOSECONDS: i64 = 1_000_000_000;

/// The clock. Its folder is removed with it.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    offset: PathBuf,
}

impl Clock {
    /// The clock of a program that runs with the library loaded. Otherwise restarts this program with it.
    ///
    /// # Errors
    /// If the library cannot be compiled, or the program cannot be started.
    pub(crate) fn load() -> Result<Self> {
        if let Some(offset) = std::env::var_os(OFFSET) {
            let offset = PathBuf::from(offset);
            return Ok(Self { offset });
        }
        let folder = tempfile::Builder::new().prefix("qiang-clock-").tempdir()?;
        let folder = folder.keep();
        // PostgreSQL runs as another user and loads the library too.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()
            .context("run cc")?;
        if !compiled.success() {
            bail!("cc ended with {compiled}");
        }
        let offset = folder.join(FILE);
        fs::write(&offset, 0_i64.to_ne_bytes())?;
        let again = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env("LD_PRELOAD", &library)
            .env(OFFSET, &offset)
            .exec();
        Err(again).context("restart with the clock's library")
    }

    /// Sets the clock this far from the true time, ahead if positive.
    pub(crate) fn set_s(&self, seconds: i64) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.offset)?;
        file.write_all_at(&(seconds * NANOSECONDS).to_ne_bytes(), 0)
    }

    /// Removes the library and the file. Running programs keep both.
    pub(crate) fn remove(self) {
        if let Some(folder) = self.offset.parent() {
            // A folder that remains in the temporary folder does no harm.
            let _ = fs::remove_dir_all(folder);
        }
    }
}
