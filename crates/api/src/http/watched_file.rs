//! Files of the configuration that are read again when they change, without a signal.

use std::{os::unix::fs::MetadataExt as _, path::Path};

/// A file that is read again when it changes.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    /// What was read last; none where there was no file.
    version: Option<Version>,
    /// Whether that cannot be used.
    pub(crate) failing: bool,
}

/// What tells a file from what stood there before: device, inode, length, and the times of its last changes.
type Version = [u64; 7];

impl WatchedFile {
    /// As it is now.
    pub(crate) fn of(file: &Path) -> Self {
        Self {
            version: version_of(file),
            failing: false,
        }
    }

    /// What is read from it, if it is another one than before and can be used. `key` names it in the log.
    pub(crate) fn if_changed<T>(
        &mut self,
        key: &'static str,
        file: &Path,
        read: impl FnOnce() -> anyhow::Result<T>,
    ) -> Option<T> {
        let version = version_of(file);
        if self.version == version {
            return None;
        }
        self.version = version;
        let read = read();
        self.failing = read.is_err();
        match read {
            Ok(read) => {
                tracing::warn!(key, "a file has changed, and was read again");
                Some(read)
            }
            Err(error) => {
                tracing::error!(
                    key,
                    reason = format!("{error:#}"),
                    "a file has changed and cannot be used: what was read before still counts"
                );
                None
            }
        }
    }
}

/// None where there is no such file.
fn version_of(file: &Path) -> Option<Version> {
    let found = std::fs::metadata(file).ok()?;
    let times = [
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ];
    let [mtime, mtime_ns, ctime, ctime_ns] = times.map(i64::cast_unsigned);
    let (device, inode, length) = (found.dev(), found.ino(), found.len());
    Some([device, inode, length, mtime, mtime_ns, ctime, ctime_ns])
}
