//! Acknowledgement levels: an answer names the level that was reached. A campaign with a higher level gets no weaker
//! answer.

use std::time::{Duration, Instant};

use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    campaign::AckLevel,
    id::PaymentRef,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{Claimed, Engine as _, EngineError, EventLog as _, ProbeResult},
};
use qiang_redis::{RedisEngine, RedisOptions, WaitFor};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::redis_faults::harness::{
    Harness, blocking, calls_of, grant_of, name, node, open_now, options, patient, wait_for,
};

const REPLICA_TIMEOUT: Duration = Duration::from_millis(100);
const CLAIMS: usize = 300;
const STOCK: u32 = 1_000;

async fn ask(
    harness: &Harness,
    node: &RedisEngine,
    claim: qiang_core::book::Claim,
) -> Result<Claimed, EngineError> {
    harness.record.ask(node, &claim).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_does_not_answer_is_not_claimed_to_have_it() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        ..options(servers.url())
    })
    .await;
    let eager = RedisOptions {
        wait_for: WaitFor::Always,
        ..harness.options.clone()
    };
    let eager = node(&eager, &[]).await;
    let strict = harness
        .open(open_now(sale(STOCK)).ack(AckLevel::Replica))
        .await;
    let relaxed = harness
        .open(open_now(sale(STOCK)).ack(AckLevel::Memory))
        .await;
    assert_eq!(
        harness.nodes[0].ack_levels(),
        [AckLevel::Memory, AckLevel::Replica]
    );

    // The replica answers.
    let ack = |answer: Result<Claimed, EngineError>| answer.unwrap().ack;
    assert_eq!(
        ack(ask(&harness, &harness.nodes[0], strict.one("early")).await),
        AckLevel::Replica
    );
    assert_eq!(
        ack(ask(&harness, &harness.nodes[0], relaxed.one("early")).await),
        AckLevel::Memory
    );
    assert_eq!(
        ack(ask(&harness, &eager, relaxed.one("eager")).await),
        AckLevel::Replica
    );

    // The replica does not answer.
    blocking(|| servers.replica(0).pause());
    assert_eq!(
        ack(ask(&harness, &harness.nodes[0], relaxed.one("late")).await),
        AckLevel::Memory
    );
    assert_eq!(
        ack(ask(&harness, &eager, relaxed.one("late-eager")).await),
        AckLevel::Memory
    );
    for attempt in 0..3 {
        // First a grant, then its replay. Neither is confirmed by the replica.
        let answer = ask(&harness, &harness.nodes[attempt % 2], strict.one("late")).await;
        assert!(
            matches!(answer, Err(EngineError::Uncertain { .. })),
            "{answer:?}"
        );
    }
    let answer = ask(&harness, &eager, strict.one("early")).await;
    assert!(
        matches!(answer, Err(EngineError::Uncertain { .. })),
        "{answer:?}"
    );
    // Settlement does not see it either.
    for partition in harness.nodes[0].partitions() {
        assert_eq!(harness.nodes[0].read(partition, 0, 10).await.unwrap(), []);
    }

    // Other users claim during this time. Afterwards, every user has the same grant as before.
    let hoped: Vec<_> = (0..CLAIMS).map(|n| strict.one(&name(n))).collect();
    let waiting: Vec<_> = hoped
        .iter()
        .map(|claim| harness.nodes[0].claim(claim.clone()))
        .collect();
    for ticket in waiting {
        let answer = ticket.await;
        assert!(
            matches!(answer, Err(EngineError::Uncertain { .. })),
            "{answer:?}"
        );
    }
    blocking(|| {
        servers.replica(0).resume();
        servers.wait_for_replicas();
    });
    let mut answers = harness.ask_all(hoped).await;
    let late = ask(&harness, &harness.nodes[1], strict.one("late"))
        .await
        .unwrap();
    answers.push((strict.one("late"), late));
    for (claim, claimed) in &answers {
        let replayed = matches!(claimed.outcome, Outcome::AlreadyGranted(_));
        assert!(
            replayed && claimed.ack == AckLevel::Replica,
            "{claim:?}: {claimed:?}"
        );
    }
    harness.replay(&answers).await;
    harness.audit().await;
}

/// Payments that wait for one stalled replica.
const PAYMENTS: u32 = 59;

/// Commands that wait for a stalled replica delay neither reads nor commands without replicas. They share waits: the
/// first waits alone, and all that were decided in the meantime wait together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_replica_delays_only_commands_that_wait_for_it() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        partitions: 1,
        replicas: 1,
        replica_timeout: 2 * REPLICA_TIMEOUT,
        ..patient(servers.url())
    })
    .await;
    let mut sales = Vec::new();
    for level in [AckLevel::Replica, AckLevel::Memory] {
        let on_sale = open_now(sale(PAYMENTS)).hold_ms(3_600_000);
        let target = harness.open(on_sale.ack(level)).await;
        let claims = (0..PAYMENTS as usize).map(|n| target.one(&name(n)));
        harness.ask_all(claims.collect()).await;
        sales.push(target);
    }
    let pay = |target: Target, number: u32| {
        let node = harness.nodes[0].clone();
        let order = target.order(number);
        let payment = PaymentRef::new(&format!("payment-{number}")).unwrap();
        let pay = Command::Pay {
            order,
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        tokio::spawn(async move { node.submit(pay).await })
    };
    blocking(|| servers.replica(0).pause());
    let before = blocking(|| calls_of(servers.primary(), "wait"));
    let confirmed: Vec<_> = (1..=PAYMENTS).map(|n| pay(sales[0], n)).collect();
    tokio::time::sleep(2 * REPLICA_TIMEOUT).await;
    let read = harness.nodes[0].order(sales[1].order(1)).await;
    assert!(matches!(read, Ok(Some(_))), "{read:?}");
    let paid = pay(sales[1], 1).await.unwrap();
    assert!(
        matches!(paid, Ok(Reply::Payment(PaymentOutcome::Paid, _))),
        "{paid:?}"
    );
    let ended = confirmed.iter().filter(|it| it.is_finished()).count();
    assert!(
        ended < PAYMENTS as usize / 2,
        "{ended} payments ended before the read"
    );
    for payment in confirmed {
        let answer = payment.await.unwrap();
        assert!(
            matches!(answer, Err(EngineError::Uncertain { .. })),
            "{answer:?}"
        );
    }
    let waits = blocking(|| calls_of(servers.primary(), "wait")) - before;
    assert!(waits < u64::from(PAYMENTS / 4), "{waits} times");
    blocking(|| servers.replica(0).resume());
}

/// If the required replicas are missing, no claim of the level `replica` is decided. All other claims are, and the node
/// reports what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_refused_before_they_are_decided_while_replicas_are_missing() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        ..options(servers.url())
    })
    .await;
    let strict = harness
        .open(open_now(sale(STOCK)).ack(AckLevel::Replica))
        .await;
    let relaxed = harness
        .open(open_now(sale(STOCK)).ack(AckLevel::Memory))
        .await;
    let node = harness.nodes[0].clone();
    let missing = |count: u32| {
        let missing = node.replicas_missing();
        !missing.is_empty() && missing.iter().all(|(_, found)| *found == count)
    };
    assert!(missing(0), "{:?}", node.replicas_missing());
    ask(&harness, &node, strict.one("early")).await.unwrap();

    blocking(|| servers.replica(0).kill());
    wait_for("the node to notice the missing replica", || missing(1)).await;
    let refused = ask(&harness, &node, strict.one("late")).await;
    let Err(EngineError::Unavailable { reason }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("the primary has 0 of 1"), "{reason}");
    let tally = node.tally(strict.id).await.unwrap().unwrap();
    assert_eq!(tally.grants, 1, "no claim was decided");
    let other = ask(&harness, &node, relaxed.one("late")).await.unwrap();
    assert_eq!(other.ack, AckLevel::Memory);
    for partition in node.partitions() {
        let probed = node.probe(partition).await;
        let Ok(ProbeResult::Degraded { reason }) = &probed else {
            panic!("{probed:?}");
        };
        assert!(reason.contains("replicas missing"), "{reason}");
    }

    blocking(|| {
        servers.replica(0).start_again();
        servers.wait_for_replicas();
    });
    // The next claim finds the replica, even if the last presence call did not.
    let granted = ask(&harness, &node, strict.one("late")).await.unwrap();
    assert!(
        matches!(granted.outcome, Outcome::Granted(_)),
        "{granted:?}"
    );
    assert_eq!(granted.ack, AckLevel::Replica);
    wait_for("the node to notice the replica", || missing(0)).await;
    harness.audit().await;
}

/// Each batch waits once: many claims do not wait one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_waits_once() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        ..options(servers.url())
    })
    .await;
    let strict = harness
        .open(open_now(sale(STOCK)).ack(AckLevel::Replica))
        .await;
    blocking(|| servers.replica(0).pause());
    let started = Instant::now();
    let tickets: Vec<_> = (0..CLAIMS)
        .map(|n| harness.nodes[0].claim(strict.one(&name(n))))
        .collect();
    for ticket in tickets {
        assert!(ticket.await.is_err());
    }
    let waits = started.elapsed().as_secs_f64() / REPLICA_TIMEOUT.as_secs_f64();
    assert!(
        waits < CLAIMS as f64 / 10.0,
        "{waits} waits for {CLAIMS} claims"
    );
    blocking(|| servers.replica(0).resume());
    let answers = harness
        .ask_all((0..CLAIMS).map(|n| strict.one(&name(n))).collect())
        .await;
    assert!(
        answers
            .iter()
            .all(|(_, claimed)| grant_of(claimed).is_some())
    );
    harness.audit().await;
}
