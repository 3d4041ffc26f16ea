//! Archiving the months of a scripted log.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use qiang_core::{
    ports::{ArchiveLog, LedgerError, LogArchive, LogStretch},
    time::Month,
};
use qiang_testkit::{ManualClock, campaign::OPENS};
use qiang_worker::{
    archive::LogArchiver,
    host::{Host, Schedule},
};
use tokio::time::sleep;

const DAY_MS: i64 = 86_400_000;

/// A log with months, and the months that it was requested to archive.
struct FakeLog {
    months: Mutex<Result<Vec<Month>, LedgerError>>,
    asked: Mutex<Vec<Month>>,
}

#[async_trait]
impl ArchiveLog for FakeLog {
    async fn archivable(&self, _: Month) -> Result<Vec<LogStretch>, LedgerError> {
        unreachable!("the archiver does not call this")
    }

    async fn archive_next(&self, before: Month) -> Result<Option<LogArchive>, LedgerError> {
        self.asked.lock().unwrap().push(before);
        let mut months = self.months.lock().unwrap();
        let months = months.as_mut().map_err(|error| error.clone())?;
        let next = months.iter().position(|month| *month < before);
        Ok(next.map(|at| LogArchive {
            stretch: LogStretch {
                month: months.remove(at),
                first: 1,
                last: 1,
            },
            file: String::new(),
            bytes: 1,
            sha256: String::new(),
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn months_are_archived_when_they_have_been_over_for_long_enough() {
    let january = Month::containing(OPENS);
    let (clock, host) = (ManualClock::new(OPENS), Host::new("upkeep"));
    let log = Arc::new(FakeLog {
        months: Mutex::new(Ok(vec![january, january.next(), january.next().next()])),
        asked: Mutex::default(),
    });
    let left = || {
        log.months
            .lock()
            .unwrap()
            .clone()
            .map(|months| months.len())
    };
    let archiver = LogArchiver::new(log.clone(), clock.clone(), 10);
    host.start("archive", LogArchiver::SCHEDULE, archiver);
    let Schedule { interval, .. } = LogArchiver::SCHEDULE;
    sleep(interval / 2).await;
    assert_eq!(left(), Ok(3));
    // First nine days into March, then ten.
    clock.set(january.next().begins().plus_millis(10 * DAY_MS - 1));
    sleep(interval).await;
    assert_eq!(left(), Ok(3));
    clock.advance(1);
    sleep(interval).await;
    assert_eq!(left(), Ok(2));
    // Years later all months, one after the other.
    clock.advance(900 * DAY_MS);
    sleep(interval).await;
    assert_eq!((left(), host.stuck()), (Ok(0), None));

    *log.months.lock().unwrap() = Err(LedgerError::unavailable("no room"));
    sleep(interval).await;
    assert!(host.stuck().unwrap().contains("no room"));
    *log.months.lock().unwrap() = Ok(vec![january]);
    sleep(interval).await;
    assert_eq!((left(), host.stuck()), (Ok(0), None));
    host.stop().await;
}
