//! Settlement as a node observes it, by a paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use qiang_core::event::{PartitionId, Seq};
use qiang_worker::{
    host::Host,
    settlement::{OnPositions, SettlementMonitor},
};
use tokio::time::sleep;

use crate::fakes::{FakeLedger, FakeLog, broken};

/// A running monitor, on a ledger without settled entries at the start.
fn start(log: &Arc<FakeLog>, ledger: &Arc<FakeLedger>) -> (Arc<SettlementMonitor>, Host) {
    start_at(&[], log, ledger, Box::new(|_| {}))
}

fn start_at(
    positions: &[(PartitionId, Seq)],
    log: &Arc<FakeLog>,
    ledger: &Arc<FakeLedger>,
    on_positions: OnPositions,
) -> (Arc<SettlementMonitor>, Host) {
    let monitor = Arc::<SettlementMonitor>::default();
    let host = Host::new("monitor");
    let reconciler = monitor.reconciler(log.clone(), ledger.clone(), positions, on_positions);
    host.start("settlement", SettlementMonitor::SCHEDULE, reconciler);
    (monitor, host)
}

/// Entries that were settled before the start do not count as unsettled before the ledger reports its positions.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_slow_at_the_start_is_not_taken_to_be_empty() {
    let (log, ledger) = (FakeLog::new(&[1, 2]), FakeLedger::new());
    *ledger.positions_take.lock().unwrap() = Duration::from_secs(3_600);
    log.ends_at(1, 1_000_010);
    log.ends_at(2, 7);
    let positions = [(PartitionId(1), 1_000_000)];
    let (monitor, host) = start_at(&positions, &log, &ledger, Box::new(|_| {}));
    assert_eq!((monitor.settled(), monitor.lag()), (1_000_000, 0));
    sleep(Duration::from_secs(5)).await;
    assert_eq!((monitor.settled(), monitor.lag()), (1_000_000, 17));
    assert!(!monitor.is_behind(PartitionId(1), 1_000));
    sleep(Duration::from_secs(30)).await;
    let stalled = monitor.stalled_in(PartitionId(1)).unwrap();
    assert!(stalled.contains("no entry after 1000000 "), "{stalled}");
    host.abort();
}

/// Positions are reported about once per second, and only if they could be read.
#[tokio::test(start_paused = true)]
async fn positions_are_said_as_they_are_read() {
    let (log, ledger) = (FakeLog::new(&[1, 2]), FakeLedger::new());
    let said = Arc::<Mutex<Vec<Vec<(PartitionId, Seq)>>>>::default();
    let on_positions = {
        let said = Arc::clone(&said);
        Box::new(move |positions: &[(PartitionId, Seq)]| {
            said.lock().unwrap().push(positions.to_vec());
        })
    };
    ledger.put(1, 5);
    let (_, host) = start_at(&[(PartitionId(2), 9)], &log, &ledger, on_positions);
    sleep(Duration::from_secs(10)).await;
    let count = said.lock().unwrap().len();
    assert!((8..=11).contains(&count), "{count}");
    *ledger.positions_take.lock().unwrap() = Duration::from_secs(3_600);
    sleep(Duration::from_secs(10)).await;
    let said = said.lock().unwrap();
    assert!(said.len() <= count + 1, "{}", said.len());
    assert!(said.iter().all(|it| *it == [(PartitionId(1), 5)]));
    host.abort();
}

#[tokio::test(start_paused = true)]
async fn lag_and_stalls_are_seen_also_while_something_does_not_answer() {
    let (log, ledger) = (FakeLog::new(&[1, 2]), FakeLedger::new());
    let (monitor, host) = start(&log, &ledger);
    log.ends_at(1, 5);
    log.ends_at(2, 7);
    ledger.put(1, 5);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((monitor.settled(), monitor.lag()), (5, 7));
    assert_eq!(monitor.stalled(), None);
    sleep(Duration::from_secs(30)).await;
    let stalled = monitor.stalled().unwrap();
    assert!(stalled.starts_with("partition 2: "), "{stalled}");

    *log.lost.lock().unwrap() = Some(broken());
    ledger.put(2, 6);
    sleep(Duration::from_secs(1)).await;
    assert!(host.stuck().is_some());
    assert_eq!((monitor.settled(), monitor.lag()), (11, 1));
    *log.lost.lock().unwrap() = None;
    ledger.put(2, 7);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((monitor.lag(), monitor.stalled()), (0, None));
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_lag_grows_while_the_ledger_does_not_answer() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    let (monitor, host) = start(&log, &ledger);
    log.ends_at(1, 5);
    ledger.put(1, 5);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((monitor.settled(), monitor.lag()), (5, 0));
    *ledger.positions_take.lock().unwrap() = Duration::from_secs(3_600);
    for n in 1..10 {
        log.ends_at(1, 5 + 100 * n);
        sleep(Duration::from_secs(2)).await;
        assert_eq!((monitor.settled(), monitor.lag()), (5, 100 * n));
    }
    let stuck = host.stuck().unwrap();
    assert!(stuck.contains("the ledger has not answered"), "{stuck}");
    host.abort();
}

/// If the ledger is always as far as the log, there is no lag, even if its answers take long.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_keeps_up_never_lags() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    *ledger.positions_take.lock().unwrap() = Duration::from_millis(300);
    let (monitor, host) = start(&log, &ledger);
    for n in 1..2_000 {
        log.ends_at(1, 100 * n);
        ledger.put(1, 100 * n);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(monitor.lag(), 0, "after {n} ms");
    }
    assert!(monitor.settled() > 100_000);
    host.abort();
}

#[tokio::test(start_paused = true)]
async fn a_log_that_does_not_answer_hides_no_other() {
    let (log, ledger) = (FakeLog::new(&[1, 2, 3]), FakeLedger::new());
    let (monitor, host) = start(&log, &ledger);
    log.ends_at(2, 10);
    sleep(Duration::from_secs(1)).await;
    log.silent.lock().unwrap().push(PartitionId(2));
    for partition in [1, 2, 3] {
        log.ends_at(partition, 30);
    }
    ledger.put(3, 30);
    sleep(Duration::from_secs(3)).await;
    let lags = [1, 2, 3].map(|n| monitor.lag_of(PartitionId(n)));
    assert_eq!((lags, monitor.lag()), ([30, 10, 0], 40));
    host.abort();
}

/// Only partitions with their share of the excess lag are behind.
#[tokio::test(start_paused = true)]
async fn a_partition_that_is_settled_is_not_behind() {
    let (log, ledger) = (FakeLog::new(&[1, 2, 3, 4]), FakeLedger::new());
    let (monitor, host) = start(&log, &ledger);
    for (partition, head) in [(1, 95), (2, 25), (3, 24), (4, 50)] {
        log.ends_at(partition, head);
    }
    ledger.put(4, 50);
    sleep(Duration::from_secs(1)).await;
    let behind = |max| [1, 2, 3, 4].map(|n| monitor.is_behind(PartitionId(n), max));
    assert_eq!(monitor.lag(), 144);
    assert_eq!(behind(145), [false; 4]);
    assert_eq!(behind(100), [true, true, false, false]);
    assert_eq!(behind(1), [true, true, true, false]);
    host.abort();
}
