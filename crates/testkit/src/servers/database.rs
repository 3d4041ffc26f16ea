//! Options of a test's SQL server.

use std::process::Command;

use super::small_disk::on_small_disk;

/// Options of a SQL server. The defaults are as in production: commits are synced to disk.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<String>,
    skips_fsync: bool,
    disk_bytes: Option<u64>,
}

impl Options {
    /// Default options: commits are synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns off syncing. Commits are faster and survive a kill, but not a loss of power. MariaDB stores all tables in
    /// one file; the setting `innodb-file-per-table=ON` changes that.
    #[must_use]
    pub fn without_fsync(mut self) -> Self {
        self.skips_fsync = true;
        self
    }

    /// Adds a setting `name=value`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Puts the data on a disk of this many bytes, which [`Ballast`](super::Ballast) fills. The data is lost when the
    /// server ends.
    #[must_use]
    pub fn small_disk(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// The command, on a small disk if the options say so.
    pub(super) fn on_disk(&self, command: Command) -> Command {
        match self.disk_bytes {
            None => command,
            Some(bytes) => on_small_disk(&command, bytes),
        }
    }

    /// All settings. They turn syncing off if the options say so.
    pub(super) fn settings<'a>(
        &'a self,
        fsync_off: &'a [&'a str],
    ) -> impl Iterator<Item = &'a str> {
        let fsync_off = if self.skips_fsync { fsync_off } else { &[] };
        let settings = self.settings.iter().map(String::as_str);
        fsync_off.iter().copied().chain(settings)
    }
}
