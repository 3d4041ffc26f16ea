//! What the machine gives: room on the disk, and the time.

use std::{path::Path, time::Instant};

use qiang_api::Disk;
use qiang_core::{ports::Clock as _, time::Timestamp};
use qiang_embedded::SystemClock;

/// The disk that a file is on.
pub(crate) fn disk_of(file: &Path) -> Option<Disk> {
    // The file is made when it is opened, and may be named without a folder.
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    let found = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()?;
    Some(Disk {
        available: found.f_bavail * found.f_frsize,
        size: found.f_blocks * found.f_frsize,
    })
}

/// The system's clock, held against the one that nobody can set.
pub(crate) struct WallClock {
    started: Instant,
    then: Timestamp,
}

impl WallClock {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            then: SystemClock.now(),
        }
    }

    /// By how many seconds it was set forward since the start; less than 0 if it was set back.
    pub(crate) fn offset_seconds(&self) -> f64 {
        let passed = SystemClock.now().as_millis() - self.then.as_millis();
        passed as f64 / 1_000.0 - self.started.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_file_that_is_not_there_yet_is_that_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk_of(&folder.path().join("qiang.db")).unwrap();
        assert!(disk.size > 0 && disk.available <= disk.size, "{disk:?}");
        assert!(disk_of(Path::new("qiang.db")).is_some());
        assert!(disk_of(Path::new("/no/such/folder/qiang.db")).is_none());
    }

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let clock = WallClock::start();
        assert!(clock.offset_seconds().abs() < 30.0);
        let set = |by_ms| WallClock {
            then: Timestamp::from_millis(SystemClock.now().as_millis() - by_ms),
            started: Instant::now(),
        };
        assert!(set(3_600_000).offset_seconds() > 3_500.0);
        assert!(set(-3_600_000).offset_seconds() < -3_500.0);
    }
}
