//! Settlement step by step and by the clock. The clock is tokio's paused one, which advances only while every task
//! sleeps.

mod consumer;
mod monitor;
mod rest;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::fakes::{FakeLedger, FakeLog, broken};
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError},
};
use qiang_worker::settlement::{
    BACKOFF_MAX, BACKOFF_MIN, POLL_INTERVAL, Position, REFUSED_MAX, STALL_MAX, Settlement,
    SettlementOptions, StepError, settle_once,
};
use tokio::time::{Instant, sleep};

/// Longest duration, by tokio's clock, of anything that is not stuck.
const LONG: Duration = Duration::from_secs(600);

/// Arguments of the hook's calls.
type Rollbacks = Arc<Mutex<Vec<(PartitionId, Seq, Seq)>>>;

fn start(log: &Arc<FakeLog>, ledger: &Arc<FakeLedger>) -> (Settlement, Rollbacks) {
    let rollbacks = Rollbacks::default();
    let hook = Arc::clone(&rollbacks);
    let options = SettlementOptions {
        entries_max: 10,
        ..SettlementOptions::new(Box::new(move |partition, settled, head| {
            hook.lock().unwrap().push((partition, settled, head));
        }))
    };
    let log = Arc::clone(log) as Arc<dyn EventLog>;
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    (Settlement::start(log, ledger, options), rollbacks)
}

/// Sleeps by the paused clock until a condition holds.
async fn until(what: &str, so: impl Fn() -> bool) {
    let patience = Instant::now() + LONG;
    while !so() {
        assert!(Instant::now() < patience, "never: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_step_settles_a_bounded_run_from_the_position_on() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    let step = || settle_once(&*log, &*ledger, PartitionId(3), 4);
    let result = step().await.unwrap();
    assert_eq!((result.entries, result.settled, result.head), (0, 0, 0));
    log.ends_at(3, 6);
    for (entries, settled) in [(4, 4), (2, 6), (0, 6)] {
        let result = step().await.unwrap();
        assert_eq!((result.entries, result.settled), (entries, settled));
        assert_eq!((result.head, result.released), (6, Ok(())));
        assert_eq!(ledger.at(3), settled);
    }
    assert_eq!(log.released(3), [4, 6]);
}

#[tokio::test]
async fn entries_that_the_ledger_refuses_are_quarantined_and_the_rest_goes_on() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    log.ends_at(3, 1_000);
    let poison = vec![1, 2, 500, 640, 1_000];
    ledger.poison.lock().unwrap().clone_from(&poison);
    let mut steps = 0;
    while ledger.at(3) < 1_000 {
        let step = settle_once(&*log, &*ledger, PartitionId(3), 1_000).await;
        assert_eq!(step.unwrap().settled, ledger.at(3));
        steps += 1;
    }
    assert_eq!(*ledger.aside.lock().unwrap(), poison);
    assert!(steps <= 6, "{steps} steps");
    // Attempts halve the run, and do not go one by one.
    let attempts = ledger.attempts.lock().unwrap().len();
    assert!(attempts <= 5 * 2 * 11, "{attempts} attempts");
}

#[tokio::test]
async fn so_many_bad_entries_are_no_accident() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    log.ends_at(3, 5);
    *ledger.poison.lock().unwrap() = vec![2, 3];
    *ledger.aside_before.lock().unwrap() = REFUSED_MAX - 1;
    let step = || settle_once(&*log, &*ledger, PartitionId(3), 1_000);
    assert_eq!(step().await.unwrap().settled, 2);
    let stuck = step().await.unwrap_err().chain();
    assert!(stuck.contains("entry 3 is bad"), "{stuck}");
    assert_eq!(ledger.at(3), 2, "no entry is skipped");
}

/// An outage directly after a refusal is still an outage: no entry is skipped, and the step is retried.
#[tokio::test]
async fn what_cannot_be_quarantined_stays_where_it_is() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    log.ends_at(3, 5);
    *ledger.poison.lock().unwrap() = vec![2];
    *ledger.aside_fails.lock().unwrap() = true;
    let step = || settle_once(&*log, &*ledger, PartitionId(3), 1_000);
    assert_eq!(step().await, Err(StepError::Ledger(broken())));
    assert_eq!(ledger.at(3), 1);
    *ledger.aside_fails.lock().unwrap() = false;
    assert_eq!(step().await.unwrap().settled, 2);
    assert_eq!(step().await.unwrap().settled, 5);
}

#[tokio::test]
async fn nothing_is_released_that_is_not_settled() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    log.ends_at(3, 6);
    ledger.refused.lock().unwrap().push(PartitionId(3));
    let failed = settle_once(&*log, &*ledger, PartitionId(3), 4).await;
    assert_eq!(failed, Err(StepError::Ledger(broken())));
    assert!(log.released(3).is_empty());
    *log.releases_fail.lock().unwrap() = 1;
    ledger.refused.lock().unwrap().clear();
    let step = settle_once(&*log, &*ledger, PartitionId(3), 4).await;
    assert_eq!(step.unwrap().released, Err(broken()));
    assert_eq!(ledger.at(3), 4, "settled entries stay settled");
}

#[tokio::test]
async fn a_log_that_has_lost_entries_is_not_settled() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    let step = || settle_once(&*log, &*ledger, PartitionId(3), 4);
    log.ends_at(3, 6);
    ledger.put(3, 9);
    let (settled, head) = (9, 6);
    let rolled_back = Err(StepError::RolledBack { settled, head });
    assert_eq!(step().await, rolled_back);
    // The log knows of its loss, although it is long enough.
    log.ends_at(3, 20);
    *log.lost.lock().unwrap() = Some(LedgerError::LogLost { head });
    assert_eq!(step().await, rolled_back);
    *log.lost.lock().unwrap() = Some(broken());
    assert_eq!(step().await, Err(StepError::Log(broken())));
    assert_eq!(ledger.attempts.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn unsettled_entries_missing_from_the_log_are_noted() {
    let (log, ledger) = (FakeLog::new(&[3]), FakeLedger::new());
    let step = || settle_once(&*log, &*ledger, PartitionId(3), 4);
    log.ends_at(3, 6);
    assert_eq!(step().await.unwrap().settled, 4);
    // Settled entries may be missing.
    *log.trimmed_to.lock().unwrap() = 4;
    log.ends_at(3, 9);
    assert_eq!(step().await.unwrap().settled, 8);
    assert_eq!(*log.gaps.lock().unwrap(), []);
    log.ends_at(3, 14);
    for trimmed_to in [12, 14] {
        *log.trimmed_to.lock().unwrap() = trimmed_to;
        let gone = LedgerError::LogGone {
            first: 9,
            last: trimmed_to,
        };
        assert_eq!(step().await, Err(StepError::Log(gone)));
    }
    let gaps = [12, 14].map(|last| (PartitionId(3), 9, last));
    assert_eq!(*log.gaps.lock().unwrap(), gaps);
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_enough_and_without_one_it_looks_by_itself() {
    let (log, ledger) = (FakeLog::new(&[0, 7]), FakeLedger::new());
    let (settlement, _) = start(&log, &ledger);
    sleep(10 * POLL_INTERVAL + Duration::from_millis(7)).await;
    let (began, looked) = (Instant::now(), log.looked(0));
    log.ends_at(7, 35);
    settlement.wake(PartitionId(7));
    until("it was woken", || ledger.at(7) == 35).await;
    assert!(
        began.elapsed() <= Duration::from_millis(10),
        "no timer was waited for"
    );
    assert_eq!(log.looked(0), looked, "no other partition was woken");
    let sizes: Vec<_> = ledger
        .attempts
        .lock()
        .unwrap()
        .iter()
        .map(|a| a.1)
        .collect();
    assert_eq!(sizes, [10, 10, 10, 5]);

    log.ends_at(0, 3);
    let began = Instant::now();
    until("it looked without a signal", || ledger.at(0) == 3).await;
    assert!(began.elapsed() <= POLL_INTERVAL + Duration::from_millis(10));
    let position = |n: u16, head: Seq| Position {
        partition: PartitionId(n),
        head,
        settled: head,
    };
    until("it is shown", || {
        let positions = settlement.statuses().into_iter().map(|status| status.0);
        positions.eq([position(0, 3), position(7, 35)])
    })
    .await;
    assert_eq!(settlement.stuck(), None);
    settlement.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_after_growing_pauses_and_hold_up_nobody_else() {
    let (log, ledger) = (FakeLog::new(&[1, 2]), FakeLedger::new());
    log.ends_at(1, 5);
    log.ends_at(2, 5);
    ledger.refused.lock().unwrap().push(PartitionId(1));
    let (settlement, _) = start(&log, &ledger);
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        settlement.wake(PartitionId(1)); // a signal does not shorten a pause
    }
    assert_eq!(ledger.at(2), 5);
    let stuck = settlement.stuck().unwrap();
    assert!(
        stuck.starts_with("partition 1: ") && stuck.contains("a planted failure"),
        "{stuck}"
    );
    let attempts = ledger.attempts.lock().unwrap().clone();
    let times: Vec<_> = attempts
        .iter()
        .filter(|a| a.0 == PartitionId(1))
        .map(|a| a.2)
        .collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (n, pause) in pauses.iter().enumerate() {
        let expected = (BACKOFF_MIN * 2_u32.pow(n.min(20) as u32)).min(BACKOFF_MAX);
        let late = pause.checked_sub(expected).expect("no pause is too short");
        assert!(late <= Duration::from_millis(2), "{n}: {pause:?}");
    }
    assert!(pauses.len() > 25 && pauses.len() < 40, "{}", pauses.len());

    ledger.refused.lock().unwrap().clear();
    until("it recovers", || settlement.stuck().is_none()).await;
    assert_eq!(ledger.at(1), 5);
    settlement.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_stops_the_partition_until_it_is_repaired() {
    let (log, ledger) = (FakeLog::new(&[4]), FakeLedger::new());
    log.ends_at(4, 8);
    let (settlement, rollbacks) = start(&log, &ledger);
    until("it is settled", || ledger.at(4) == 8).await;
    // Later entries belong to another history, however long it is, so the log refuses reads.
    log.ends_at(4, 50);
    *log.lost.lock().unwrap() = Some(LedgerError::LogLost { head: 2 });
    until("the hook was called", || {
        !rollbacks.lock().unwrap().is_empty()
    })
    .await;
    settlement.wake(PartitionId(4));
    sleep(LONG).await;
    assert_eq!(ledger.at(4), 8);
    assert_eq!(*rollbacks.lock().unwrap(), [(PartitionId(4), 8, 2)]);
    let stuck = settlement.stuck().unwrap();
    assert_eq!(
        stuck,
        "partition 4: the log ends at entry 2, and the ledger has entry 8"
    );

    *log.lost.lock().unwrap() = None;
    until("it recovers", || ledger.at(4) == 50).await;
    until("it is well", || settlement.stuck().is_none()).await;
    log.ends_at(4, 49);
    until("it is found again", || rollbacks.lock().unwrap().len() == 2).await;
    settlement.stop().await;
}

/// A stalled replica delays the answers that wait for it. Settlement waits with them, which counts as a fault after a
/// while, as any other stall does, and only while the replica stalls.
#[tokio::test(start_paused = true)]
async fn waiting_for_replicas_is_no_fault_at_first() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    let (settlement, _) = start(&log, &ledger);
    let short = Duration::from_secs(1);
    for round in 1..=2 {
        log.ends_at(1, 20 * round);
        *log.replicated.lock().unwrap() = Some(20 * round - 10);
        sleep(STALL_MAX - short).await;
        assert_eq!((ledger.at(1), settlement.stuck()), (20 * round - 10, None));
        // A position that moves is not stalled.
        *log.replicated.lock().unwrap() = Some(20 * round - 5);
        sleep(STALL_MAX - short).await;
        assert_eq!((ledger.at(1), settlement.stuck()), (20 * round - 5, None));
        sleep(2 * short).await;
        let stuck = settlement.stuck().unwrap();
        assert!(
            stuck.contains("5 entries") && stuck.contains("replicas"),
            "{stuck}"
        );
        assert_eq!(settlement.stuck_in(PartitionId(1)), Some(stuck));
        *log.replicated.lock().unwrap() = None;
        until("it recovers", || settlement.stuck().is_none()).await;
        assert_eq!(ledger.at(1), 20 * round);
    }
    settlement.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_log_is_released_until_it_succeeds() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    // Another process settled this, and stopped before the release.
    log.ends_at(1, 4);
    ledger.put(1, 4);
    let (settlement, _) = start(&log, &ledger);
    until("it is released", || log.released(1) == [4]).await;
    *log.releases_fail.lock().unwrap() = 3;
    log.ends_at(1, 6);
    until("it is shown", || settlement.stuck().is_some()).await;
    until("it is released", || log.released(1) == [4, 6]).await;
    sleep(LONG).await;
    // The release is repeated, so the log can drop what it keeps for a limited time.
    let again = &log.released(1)[2..];
    assert!((10..=60).contains(&again.len()), "{again:?}");
    assert!(again.iter().all(|upto| *upto == 6), "{again:?}");
    assert_eq!(ledger.attempts.lock().unwrap().len(), 1);
    assert_eq!(settlement.stuck(), None);
    settlement.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_finishes_what_was_read_and_starts_nothing_more() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    ledger.permits.forget_permits(usize::MAX);
    log.ends_at(1, 100);
    let (settlement, _) = start(&log, &ledger);
    until("it has begun", || {
        ledger.attempts.lock().unwrap().len() == 1
    })
    .await;
    let settlement = Arc::new(settlement);
    let stopping = Arc::clone(&settlement);
    let stopped = tokio::spawn(async move { stopping.stop().await });
    sleep(LONG).await;
    assert!(!stopped.is_finished(), "a transaction is in flight");
    ledger.permits.add_permits(10);
    stopped.await.unwrap();
    assert_eq!(ledger.at(1), 10, "only the run that was read is settled");
    assert_eq!(log.released(1), [10]);
    assert_eq!(settlement.statuses()[0].0.lag(), 90);
}

#[tokio::test(start_paused = true)]
async fn dropped_it_comes_to_its_end() {
    let (log, ledger) = (FakeLog::new(&[1]), FakeLedger::new());
    let (settlement, _) = start(&log, &ledger);
    sleep(POLL_INTERVAL).await;
    drop(settlement);
    sleep(LONG).await;
    assert_eq!(Arc::strong_count(&ledger), 1, "no task uses it");
}
