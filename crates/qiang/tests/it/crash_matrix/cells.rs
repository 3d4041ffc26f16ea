//! Steps of a cell: load, the stop at the step, the kill, the recovery and the verdict.

use std::time::Duration;

use qiang_testkit::proxy::FaultProxy;

use crate::crash_matrix::{
    LedgerKind, Step, TransportKind, Victim,
    harness::{FROM, Harness, blocking, wait_for},
    settler::{Role, Settler},
    users::Users,
    verdict::{REFILLED, STUCK, judge},
};

/// Users who come while the victim is dead, and after its return.
const MEANWHILE: usize = 150;
const AFTERWARDS: usize = 200;
/// Time for which the engine retries a claim: short enough to notice the crash of Redis, or the usual one.
const NOTICED: Duration = Duration::from_millis(200);
const USUAL: Duration = Duration::from_secs(10);

/// One cell of a victim that is not a relay.
pub(crate) async fn crash(
    victim: Victim,
    step: Step,
    transport_kind: TransportKind,
    kind: LedgerKind,
) {
    let patience = if victim == Victim::Redis {
        NOTICED
    } else {
        USUAL
    };
    let harness = Harness::new(transport_kind, kind, patience).await;
    let [sale, packet] = harness.targets();
    let in_file = kind == LedgerKind::Sqlite && step == Step::MidTransaction;
    let mut hold = None;
    if in_file {
        hold = Some(harness.ledger.hold(FROM).await);
    }
    let settler = harness.stopping(Role::Settle, Some(step), None);
    let users = Users::start(harness.engine.clone(), sale, packet);
    let stopped = if step == Step::MidTransaction {
        if !in_file {
            for partition in [0, 1] {
                harness
                    .wait_for_settled(qiang_core::event::PartitionId(partition), FROM)
                    .await;
            }
            hold = Some(harness.ledger.hold(FROM).await);
        }
        harness.ledger.wait_for_held().await;
        None
    } else {
        let stopped = harness.report(&settler).await;
        assert_eq!(stopped.what, "stopped");
        Some(stopped)
    };

    let settler = match victim {
        Victim::Worker => {
            let before = harness.ledger.positions().await;
            blocking(|| settler.kill());
            users.more(MEANWHILE).await;
            match hold.take() {
                // The successor waits for the transaction of the dead process until the database notices the death.
                Some(hold) if !in_file => {
                    let next = harness.worker();
                    harness.ledger.let_go(hold).await;
                    next
                }
                Some(hold) => {
                    assert_eq!(
                        harness.ledger.positions().await,
                        before,
                        "part of a transaction was committed"
                    );
                    harness.ledger.let_go(hold).await;
                    harness.worker()
                }
                None => harness.worker(),
            }
        }
        Victim::Redis => {
            blocking(|| harness.redis.kill());
            users.unknown().await;
            drop(stopped);
            if let Some(hold) = hold.take() {
                harness.ledger.let_go(hold).await;
            }
            wait_until_stuck(&settler).await;
            blocking(|| harness.redis.start_again());
            settler
        }
        Victim::RabbitMq => {
            let rabbit = blocking(|| harness.rabbit_to_kill());
            blocking(|| rabbit.kill());
            users.more(MEANWHILE).await;
            drop(stopped);
            if let Some(hold) = hold.take() {
                harness.ledger.let_go(hold).await;
            }
            wait_until_stuck(&settler).await;
            blocking(|| rabbit.start_again());
            settler
        }
        Victim::Database => {
            blocking(|| harness.ledger.kill());
            users.more(MEANWHILE).await;
            drop(stopped);
            wait_until_stuck(&settler).await;
            blocking(|| harness.ledger.start_again());
            settler
        }
    };
    users.more(AFTERWARDS).await;
    let answers = users.dismiss().await;
    judge(&harness, settler, &answers).await;
}

async fn wait_until_stuck(settler: &Settler) {
    wait_for("settlement to notice", async || {
        settler.check();
        settler.has_said(STUCK)
    })
    .await;
}

/// One cell of the relay, which is a process of its own. Another process settles, and takes over relaying.
pub(crate) async fn crash_relay(step: Step, kind: LedgerKind) {
    let harness = Harness::new(TransportKind::RabbitMq, kind, USUAL).await;
    let [sale, packet] = harness.targets();
    let rabbit = harness.rabbit.as_ref().expect("a cell with RabbitMQ");
    let proxy = FaultProxy::start(rabbit.addr()).await;
    let by_proxy = rabbit
        .url()
        .replace(&rabbit.addr().to_string(), &proxy.addr().to_string());
    // After this stop, published messages arrive, and their confirms do not.
    let unconfirmed = step == Step::Published;
    let stop = if unconfirmed { Step::AfterRead } else { step };
    let relay = harness.stopping(Role::Relay, Some(stop), Some(by_proxy));
    for _ in 0..2 {
        let begun = harness.report(&relay).await;
        assert_eq!(begun.what, "begun");
    }
    let settler = harness.stopping(Role::Settle, None, None);
    let users = Users::start(harness.engine.clone(), sale, packet);
    let stopped = harness.report(&relay).await;
    assert_eq!(stopped.what, "stopped");
    if unconfirmed {
        proxy.drop_responses().await;
        let (partition, place) = (stopped.partition, stopped.place);
        drop(stopped);
        harness.wait_for_settled(partition, place).await;
    }
    blocking(|| relay.kill());
    users.more(MEANWHILE + AFTERWARDS).await;
    let answers = users.dismiss().await;
    harness.wait_for_all(&settler).await;
    assert!(!settler.has_said(REFILLED), "{}", settler.output());
    judge(&harness, settler, &answers).await;
}

/// RabbitMQ dies with unconfirmed messages of the relay, some perhaps unread.
pub(crate) async fn crash_rabbit_unconfirmed(kind: LedgerKind) {
    let harness = Harness::new(TransportKind::RabbitMq, kind, USUAL).await;
    let [sale, packet] = harness.targets();
    let relay = harness.stopping(Role::Relay, Some(Step::AfterRead), None);
    for _ in 0..2 {
        let begun = harness.report(&relay).await;
        assert_eq!(begun.what, "begun");
    }
    let settler = harness.stopping(Role::Settle, None, None);
    let users = Users::start(harness.engine.clone(), sale, packet);
    let stopped = harness.report(&relay).await;
    let rabbit = blocking(|| harness.rabbit_to_kill());
    blocking(|| rabbit.pause());
    drop(stopped);
    users.more(MEANWHILE).await;
    blocking(|| rabbit.kill());
    wait_until_stuck(&settler).await;
    blocking(|| rabbit.start_again());
    users.more(AFTERWARDS).await;
    let answers = users.dismiss().await;
    harness.wait_for_all(&settler).await;
    judge(&harness, settler, &answers).await;
    drop(relay);
}
