//! How a test's SQL server is set up.

use std::process::Command;

use super::small_disk::on_small_disk;

/// How a SQL server is set up. By default as in production: a commit is on the disk.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<String>,
    skips_fsync: bool,
    disk_bytes: Option<u64>,
}

impl Options {
    /// Commits are synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Faster; commits survive a kill, but not the loss of power.
    #[must_use]
    pub fn without_fsync(mut self) -> Self {
        self.skips_fsync = true;
        self
    }

    /// A further `name=value`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Data on a disk of so many bytes, which [`Ballast`](super::Ballast) fills. It is lost when the server ends.
    #[must_use]
    pub fn small_disk(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// The command, on a small disk if that is asked for.
    pub(super) fn on_disk(&self, command: Command) -> Command {
        match self.disk_bytes {
            None => command,
            Some(bytes) => on_small_disk(&command, bytes),
        }
    }

    /// All settings, with those that turn syncing off where it is asked for.
    pub(super) fn settings<'a>(
        &'a self,
        fsync_off: &'a [&'a str],
    ) -> impl Iterator<Item = &'a str> {
        let fsync_off = if self.skips_fsync { fsync_off } else { &[] };
        let settings = self.settings.iter().map(String::as_str);
        fsync_off.iter().copied().chain(settings)
    }
}
