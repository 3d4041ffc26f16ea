//! Opening drafts, with a scripted ledger and a scripted engine.

use std::{
    ops::RangeInclusive,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::fake_engine::FakeEngine;
use crate::fakes::{FakeLedger, broken};
use qiang_core::book::Setup;
use qiang_testkit::campaign::{id, sale};
use qiang_worker::{
    drafts::DraftOpener,
    host::{Host, Schedule},
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn drafts_are_opened_and_one_that_fails_holds_up_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let mut opener = DraftOpener::new(ledger.clone(), engine.clone());
    assert!(matches!(opener.open_all().await, Ok(0)));
    *ledger.drafts.lock().unwrap() = Ok(drafts(1..=3));
    *engine.refused.lock().unwrap() = vec![id(2)];
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(2).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(1), id(3)]);

    // Open drafts are left alone.
    engine.refused.lock().unwrap().clear();
    *engine.lost.lock().unwrap() = Some(id(1));
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(1).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(1), id(2)]);
    *engine.lost.lock().unwrap() = None;
    assert!(matches!(opener.open_all().await, Ok(3)));
    assert_eq!(engine.done(), []);

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = DraftOpener::SCHEDULE;
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(Duration::from_millis(1)).await;
    *ledger.drafts.lock().unwrap() = Err(broken());
    sleep(interval).await;
    assert!(host.stuck().unwrap().starts_with("drafts: "));
    *ledger.drafts.lock().unwrap() = Ok(drafts(4..=4));
    sleep(interval).await;
    assert_eq!((engine.done(), host.stuck()), (vec![id(4)], None));
    host.stop().await;
}

/// Settlement lags: every campaign is open, and still a draft in the ledger. The opener reads no campaign from the
/// ledger. Once per second the engine reports a page of them as open.
#[tokio::test(start_paused = true)]
async fn what_is_open_and_not_settled_is_not_read() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    *ledger.drafts.lock().unwrap() = Ok(drafts(1..=10_000));
    engine.there.lock().unwrap().extend((1..=10_000).map(id));
    let host = Host::new("upkeep");
    let opener = DraftOpener::new(ledger.clone(), engine.clone());
    let Schedule { interval, .. } = DraftOpener::SCHEDULE;
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(interval * 99 + interval / 2).await;
    assert_eq!(ledger.setups_read.load(Ordering::Relaxed), 0);
    assert_eq!(engine.done(), []);
    // 40 runs are one round: 39 pages of 256 and one of 16.
    let asked = engine.tallies.load(Ordering::Relaxed);
    assert_eq!(asked, 2 * 10_000 + 20 * 256);
    assert_eq!(host.stuck(), None);
    host.stop().await;
}

/// Drafts that cannot be opened do not delay the next pages.
#[tokio::test(start_paused = true)]
async fn each_run_goes_on_where_the_last_one_stopped() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    *ledger.drafts.lock().unwrap() = Ok(drafts(1..=600));
    *engine.refused.lock().unwrap() = (1..=256).map(id).collect();
    let host = Host::new("upkeep");
    let opener = DraftOpener::new(ledger.clone(), engine.clone());
    let Schedule { interval, .. } = DraftOpener::SCHEDULE;
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(interval / 2).await;
    assert_eq!(engine.done(), []);
    // The next two pages follow at once.
    sleep(interval).await;
    assert_eq!(engine.done(), (257..=600).map(id).collect::<Vec<_>>());
    host.stop().await;
}

/// An unreadable draft, for example of another version, makes no node unready. It is read again later.
#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_stops_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    *ledger.drafts.lock().unwrap() = Ok(drafts(1..=4));
    *ledger.unreadable.lock().unwrap() = vec![id(2), id(4)];
    // The engine may read the same rows.
    *engine.doubtful.lock().unwrap() = vec![id(4)];
    let host = Host::new("upkeep");
    let opener = DraftOpener::new(ledger.clone(), engine.clone());
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(engine.done(), [id(1), id(3)]);
    sleep(Duration::from_secs(590)).await;
    assert_eq!(ledger.setups_read.load(Ordering::Relaxed), 3);
    assert_eq!(host.stuck(), None);
    ledger.unreadable.lock().unwrap().clear();
    engine.doubtful.lock().unwrap().clear();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(engine.done(), [id(2), id(4)]);
    host.stop().await;
}

/// A draft that hangs delays the others by at most a minute, and is named.
#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_given_up() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    *ledger.drafts.lock().unwrap() = Ok(drafts(1..=3));
    *engine.hangs.lock().unwrap() = Some(id(1));
    let mut opener = DraftOpener::new(ledger.clone(), engine.clone());
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(1).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(2), id(3)]);
}

fn drafts(numbers: RangeInclusive<u64>) -> Vec<Setup> {
    numbers.map(|n| sale(10).setup(n)).collect()
}
