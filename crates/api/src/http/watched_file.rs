//! Files of the configuration that are reloaded after a change, without a signal.

use std::{os::unix::fs::MetadataExt as _, path::Path};

/// A file that is reloaded after a change.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    /// Version that was read last; `None` if there was no file.
    version: Option<Version>,
    /// Whether that version cannot be used.
    pub(crate) failing: bool,
}

/// Version of a file: device, inode, length, and the times of its last changes.
type Version = [u64; 7];

impl WatchedFile {
    /// The file in its present version.
    pub(crate) fn from_file(file: &Path) -> Self {
        Self {
            version: version_of(file),
            failing: false,
        }
    }

    /// Whether the file differs from the version that was seen last.
    pub(crate) fn has_changed(&mut self, file: &Path) -> bool {
        let version = version_of(file);
        let has_changed = self.version != version;
        self.version = version;
        has_changed
    }

    /// Value read from the file, if the file has changed and is valid. `key` names it in the log.
    pub(crate) fn if_changed<T>(
        &mut self,
        key: &'static str,
        file: &Path,
        read: impl FnOnce() -> anyhow::Result<T>,
    ) -> Option<T> {
        if !self.has_changed(file) {
            return None;
        }
        let read = read();
        self.failing = read.is_err();
        match read {
            Ok(read) => {
                tracing::warn!(key, "a file has changed and was reloaded");
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

/// `None` if there is no such file.
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
