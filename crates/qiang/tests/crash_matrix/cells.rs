//! How a cell goes: load, the stop at the step, the kill, whatever follows from it, and the verdict.

use std::time::Duration;

use qiang_testkit::proxy::FaultProxy;

use crate::{
    Kind, Step, TransportKind, Victim,
    crowd::Crowd,
    rig::{FROM, Rig, blocking, wait_for},
    settler::{Role, Settler},
    verdict::{REFILLED, STUCK, judge},
};

/// Users who come while the victim is dead, and after it is back.
const MEANWHILE: usize = 150;
const AFTERWARDS: usize = 200;
/// How long the engine tries a claim again by itself: so short that the crash of Redis is noticed; otherwise as usual.
const NOTICED: Duration = Duration::from_millis(200);
const USUAL: Duration = Duration::from_secs(10);

/// One cell of a victim that is not a relay.
pub(crate) async fn crash(victim: Victim, step: Step, transport_kind: TransportKind, kind: Kind) {
    let patience = if victim == Victim::Redis {
        NOTICED
    } else {
        USUAL
    };
    let rig = Rig::new(transport_kind, kind, patience).await;
    let [sale, packet] = rig.targets();
    let in_file = kind == Kind::Sqlite && step == Step::MidTransaction;
    let mut hold = None;
    if in_file {
        hold = Some(rig.books.hold(FROM).await);
    }
    let settler = rig.stopping(Role::Settle, Some(step), None);
    let crowd = Crowd::start(rig.engine.clone(), sale, packet);
    let stopped = if step == Step::MidTransaction {
        if !in_file {
            for partition in [0, 1] {
                rig.wait_for_settled(qiang_core::event::PartitionId(partition), FROM)
                    .await;
            }
            hold = Some(rig.books.hold(FROM).await);
        }
        rig.books.wait_for_held().await;
        None
    } else {
        let stopped = rig.report(&settler).await;
        assert_eq!(stopped.what, "stopped");
        Some(stopped)
    };

    let settler = match victim {
        Victim::Worker => {
            let before = rig.books.positions().await;
            blocking(|| settler.kill());
            crowd.more(MEANWHILE).await;
            match hold.take() {
                // The successor waits for the dead one's transaction, as long as the database has not noticed.
                Some(hold) if !in_file => {
                    let next = rig.worker();
                    rig.books.let_go(hold).await;
                    next
                }
                Some(hold) => {
                    assert_eq!(
                        rig.books.positions().await,
                        before,
                        "half a transaction is kept"
                    );
                    rig.books.let_go(hold).await;
                    rig.worker()
                }
                None => rig.worker(),
            }
        }
        Victim::Redis => {
            blocking(|| rig.redis.kill());
            crowd.unknown().await;
            drop(stopped);
            if let Some(hold) = hold.take() {
                rig.books.let_go(hold).await;
            }
            wait_until_stuck(&settler).await;
            blocking(|| rig.redis.start_again());
            settler
        }
        Victim::RabbitMq => {
            let rabbit = blocking(|| rig.rabbit_to_kill());
            blocking(|| rabbit.kill());
            crowd.more(MEANWHILE).await;
            drop(stopped);
            if let Some(hold) = hold.take() {
                rig.books.let_go(hold).await;
            }
            wait_until_stuck(&settler).await;
            blocking(|| rabbit.start_again());
            settler
        }
        Victim::Database => {
            blocking(|| rig.books.kill());
            crowd.more(MEANWHILE).await;
            drop(stopped);
            wait_until_stuck(&settler).await;
            blocking(|| rig.books.start_again());
            settler
        }
    };
    crowd.more(AFTERWARDS).await;
    let told = crowd.dismiss().await;
    judge(&rig, settler, &told).await;
}

async fn wait_until_stuck(settler: &Settler) {
    wait_for("settlement to notice", async || {
        settler.check();
        settler.has_said(STUCK)
    })
    .await;
}

/// One cell of the relay. It has a process of its own; another one settles, and takes over relaying.
pub(crate) async fn crash_relay(step: Step, kind: Kind) {
    let rig = Rig::new(TransportKind::RabbitMq, kind, USUAL).await;
    let [sale, packet] = rig.targets();
    let rabbit = rig.rabbit.as_ref().expect("a cell with RabbitMQ");
    let proxy = FaultProxy::start(rabbit.addr()).await;
    let by_proxy = rabbit
        .url()
        .replace(&rabbit.addr().to_string(), &proxy.addr().to_string());
    // What is published arrives, and its confirm does not, if the process goes on from here.
    let unconfirmed = step == Step::Published;
    let stop = if unconfirmed { Step::AfterRead } else { step };
    let relay = rig.stopping(Role::Relay, Some(stop), Some(by_proxy));
    for _ in 0..2 {
        let begun = rig.report(&relay).await;
        assert_eq!(begun.what, "begun");
    }
    let settler = rig.stopping(Role::Settle, None, None);
    let crowd = Crowd::start(rig.engine.clone(), sale, packet);
    let stopped = rig.report(&relay).await;
    assert_eq!(stopped.what, "stopped");
    if unconfirmed {
        proxy.drop_responses().await;
        let (partition, place) = (stopped.partition, stopped.place);
        drop(stopped);
        rig.wait_for_settled(partition, place).await;
    }
    blocking(|| relay.kill());
    crowd.more(MEANWHILE + AFTERWARDS).await;
    let told = crowd.dismiss().await;
    rig.wait_for_all(&settler).await;
    assert!(!settler.has_said(REFILLED), "{}", settler.output());
    judge(&rig, settler, &told).await;
}

/// RabbitMQ dies with messages of the relay that it has not confirmed, perhaps not even read.
pub(crate) async fn crash_rabbit_unconfirmed(kind: Kind) {
    let rig = Rig::new(TransportKind::RabbitMq, kind, USUAL).await;
    let [sale, packet] = rig.targets();
    let relay = rig.stopping(Role::Relay, Some(Step::AfterRead), None);
    for _ in 0..2 {
        let begun = rig.report(&relay).await;
        assert_eq!(begun.what, "begun");
    }
    let settler = rig.stopping(Role::Settle, None, None);
    let crowd = Crowd::start(rig.engine.clone(), sale, packet);
    let stopped = rig.report(&relay).await;
    let rabbit = blocking(|| rig.rabbit_to_kill());
    blocking(|| rabbit.pause());
    drop(stopped);
    crowd.more(MEANWHILE).await;
    blocking(|| rabbit.kill());
    wait_until_stuck(&settler).await;
    blocking(|| rabbit.start_again());
    crowd.more(AFTERWARDS).await;
    let told = crowd.dismiss().await;
    rig.wait_for_all(&settler).await;
    judge(&rig, settler, &told).await;
    drop(relay);
}
