//! Closing claimed red packets, with a scripted ledger and a scripted engine.

use std::sync::Arc;

use crate::fake_engine::FakeEngine;
use crate::fakes::{FakeLedger, broken};
use qiang_testkit::campaign::id;
use qiang_worker::{
    host::{Host, Schedule},
    packets::PacketCloser,
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn packets_are_closed_and_one_that_fails_holds_up_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let closer = PacketCloser::new(ledger.clone(), engine.clone());
    assert!(matches!(closer.close_all().await, Ok(0)));
    *ledger.claimed.lock().unwrap() = Ok((1..=3).map(id).collect());
    *engine.refused.lock().unwrap() = vec![id(2)];
    let failed = closer.close_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(2).to_string()), "{failed}");
    assert_eq!(engine.done(), [id(1), id(3)]);

    // The ledger learns of closes from settlement. Until then the packets are closed again.
    engine.refused.lock().unwrap().clear();
    assert!(matches!(closer.close_all().await, Ok(3)));
    assert_eq!(engine.done(), [id(1), id(2), id(3)]);

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = PacketCloser::SCHEDULE;
    *ledger.claimed.lock().unwrap() = Err(broken());
    host.start("packets", PacketCloser::SCHEDULE, closer);
    sleep(interval / 2).await;
    assert!(host.stuck().unwrap().starts_with("packets: "));
    *ledger.claimed.lock().unwrap() = Ok(vec![id(4)]);
    sleep(interval).await;
    assert_eq!((engine.done(), host.stuck()), (vec![id(4)], None));
    host.stop().await;
}

/// A full page of packets cannot be closed, because their partition is halted. The other packets are closed anyway.
#[tokio::test(start_paused = true)]
async fn packets_that_cannot_be_closed_do_not_fill_every_run() {
    const HALTED: u64 = 600;
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let closer = PacketCloser::new(ledger.clone(), engine.clone());
    let halted: Vec<_> = (0..HALTED).map(id).collect();
    let (first, last) = (id(HALTED), id(HALTED + 1));
    let all = [&[first], &halted[..], &[last]].concat();
    *ledger.claimed.lock().unwrap() = Ok(all.clone());
    *engine.refused.lock().unwrap() = halted;
    assert_eq!(closer.found().await.unwrap(), all);
    assert!(closer.close_all().await.is_err());
    assert_eq!(engine.done(), [first, last]);

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = PacketCloser::SCHEDULE;
    host.start("packets", PacketCloser::SCHEDULE, closer);
    sleep(5 * interval + interval / 2).await;
    assert_eq!(engine.done(), [first, last, first, last]);
    host.stop().await;
}
