//! What a node sees of settlement, by a clock that stands still.

use std::{sync::Arc, time::Duration};

use qiang_control::{host::Host, settlement::SettlementMonitor};
use tokio::time::sleep;

use crate::fakes::{FakeLedger, FakeLog, broken};

#[tokio::test(start_paused = true)]
async fn lag_and_stalls_are_seen_also_while_something_does_not_answer() {
    let (log, ledger) = (FakeLog::new(&[1, 2]), FakeLedger::new());
    let monitor = Arc::<SettlementMonitor>::default();
    let host = Host::new("monitor");
    let reconciler = monitor.reconciler(log.clone(), ledger.clone());
    host.start("settlement", SettlementMonitor::SCHEDULE, reconciler);
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
