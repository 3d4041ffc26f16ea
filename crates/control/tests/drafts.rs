//! Opening drafts, with a ledger and an engine that do as they are told.
#![allow(clippy::unwrap_used)]

mod fake_engine;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "settlement/fakes.rs"]
mod fakes;

use std::{sync::Arc, time::Duration};

use fake_engine::FakeEngine;
use fakes::{FakeLedger, broken};
use qiang_control::{
    drafts::DraftOpener,
    host::{Host, Schedule},
};
use qiang_testkit::campaign::{id, sale};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn drafts_are_opened_and_one_that_fails_holds_up_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let opener = DraftOpener::new(ledger.clone(), engine.clone());
    assert!(matches!(opener.open_all().await, Ok(0)));
    *ledger.drafts.lock().unwrap() = Ok((1..=3).map(|n| sale(10).setup(n)).collect());
    *engine.refused.lock().unwrap() = vec![id(2)];
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(2).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(1), id(3)]);

    engine.refused.lock().unwrap().clear();
    *engine.lost.lock().unwrap() = Some(id(1));
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(1).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(1), id(2), id(3)]);
    *engine.lost.lock().unwrap() = None;

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = DraftOpener::SCHEDULE;
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(engine.done(), [id(1), id(2), id(3)]);
    *ledger.drafts.lock().unwrap() = Err(broken());
    sleep(interval).await;
    assert!(host.stuck().unwrap().starts_with("drafts: "));
    *ledger.drafts.lock().unwrap() = Ok(vec![sale(10).setup(4)]);
    sleep(interval).await;
    assert_eq!((engine.done(), host.stuck()), (vec![id(4)], None));
    host.stop().await;
}
