//! Limits of the machine: disk space, open files, and the clock.

use std::{path::Path, time::Instant};

use qiang_api::Disk;
use qiang_core::{ports::Clock as _, time::Timestamp};
use qiang_embedded::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that connections of clients may not use. They serve data files, operators, refused clients, and
/// connections to Redis, the ledger and endpoints.
pub(crate) const FILES_KEPT_BACK: u64 = 512;

/// The disk of a file.
pub(crate) fn disk_of(file: &Path) -> Option<Disk> {
    // The file may not exist yet, and its path may have no folder.
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    let found = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()?;
    Some(Disk {
        available: found.f_bavail * found.f_frsize,
        size: found.f_blocks * found.f_frsize,
    })
}

/// Number of these connections for which the process may open files. First raises the process's own limit as far as
/// allowed.
pub(crate) fn connections_that_fit(wanted: u32) -> u32 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = u64::from(wanted) + FILES_KEPT_BACK;
    let raised = needed.min(maximum.unwrap_or(u64::MAX));
    let may_open = match current {
        Some(current) if current < raised => {
            let limit = Rlimit {
                current: Some(raised),
                maximum,
            };
            setrlimit(Resource::Nofile, limit).map_or(current, |()| raised)
        }
        current => current.unwrap_or(u64::MAX),
    };
    let fit = fit(wanted, may_open);
    if fit < wanted {
        tracing::warn!(
            may_open,
            connections_max = fit,
            configured = wanted,
            "fewer connections are served than server.connections_max: raise the limit of open files \
             (LimitNOFILE, ulimit -n)"
        );
    }
    fit
}

/// Connections that fit the limit of open files. A low limit leaves half of the files to connections.
fn fit(wanted: u32, may_open: u64) -> u32 {
    let kept_back = FILES_KEPT_BACK.min(may_open / 2);
    let left = u32::try_from(may_open - kept_back).unwrap_or(u32::MAX);
    wanted.min(left).max(1)
}

/// Compares the system clock with the monotonic clock, which cannot be set.
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

    /// Seconds by which the clock was set forward since the start; negative if it was set back.
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
    fn connections_leave_open_files_for_everything_else() {
        assert_eq!(fit(10_000, u64::MAX), 10_000);
        assert_eq!(fit(10_000, 10_512), 10_000);
        assert_eq!(fit(10_000, 10_511), 9_999);
        assert_eq!(fit(10_000, 1_024), 512);
        assert_eq!(fit(10_000, 256), 128);
        assert_eq!(fit(100, 256), 100);
        assert_eq!(fit(100, 0), 1);
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
