//! Entries that a process settles when it stops, and the report of the rest.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, SettlementStore as _},
};
use qiang_worker::settlement::{ENTRIES_MAX, Unsettled, settle_rest};

use crate::fakes::{FakeLedger, FakeLog};

const WAIT: Duration = Duration::from_secs(10);

async fn left(
    log: &Arc<FakeLog>,
    ledger: &Arc<FakeLedger>,
    known: &[(u16, Seq)],
) -> Vec<Unsettled> {
    let log = Arc::clone(log) as Arc<dyn EventLog>;
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    let known = known
        .iter()
        .map(|(n, seq)| (PartitionId(*n), *seq))
        .collect();
    settle_rest(&log, &ledger, known, WAIT).await
}

#[tokio::test(start_paused = true)]
async fn a_stop_settles_up_to_the_end_of_every_log() {
    let (log, ledger) = (FakeLog::new(&[0, 1, 2]), FakeLedger::new());
    let far = 2 * ENTRIES_MAX as Seq + 1;
    log.ends_at(0, 7);
    log.ends_at(1, far);
    assert_eq!(left(&log, &ledger, &[(0, 3), (1, 0), (2, 0)]).await, []);
    for (partition, end) in [(0, 7), (1, far), (2, 0)] {
        assert_eq!(ledger.settled(PartitionId(partition)).await, Ok(end));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_bounded_and_one_partition_holds_up_no_other() {
    let (log, ledger) = (FakeLog::new(&[0, 1, 2, 3]), FakeLedger::new());
    for partition in 0..4 {
        log.ends_at(partition, 5);
    }
    ledger.refused.lock().unwrap().push(PartitionId(0));
    log.silent.lock().unwrap().push(PartitionId(1));
    let began = tokio::time::Instant::now();
    // The log of the third partition has lost answered entries.
    let left = left(&log, &ledger, &[(0, 5), (1, 4), (2, 5), (3, 9)]).await;
    assert!(began.elapsed() >= WAIT && began.elapsed() < 2 * WAIT);
    let said: Vec<_> = left
        .iter()
        .map(|it| (it.partition.0, it.settled, it.known))
        .collect();
    assert_eq!(said, [(0, Some(0), 5), (1, Some(0), 4), (3, Some(5), 9)]);
    assert!(left.iter().all(|it| !it.reason.is_empty()), "{left:?}");
    assert_eq!(ledger.settled(PartitionId(2)).await, Ok(5));
}

/// If the ledger already has the entries, the stop does not wait, in any state of the log.
#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_that_is_settled() {
    let (log, ledger) = (FakeLog::new(&[0]), FakeLedger::new());
    log.ends_at(0, 5);
    assert_eq!(left(&log, &ledger, &[(0, 5)]).await, []);
    *log.lost.lock().unwrap() = Some(crate::fakes::broken());
    let began = tokio::time::Instant::now();
    assert_eq!(left(&log, &ledger, &[(0, 5)]).await, []);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
