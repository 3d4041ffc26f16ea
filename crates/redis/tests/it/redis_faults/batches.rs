//! Many concurrent claims of one user: in one batch, on two nodes, with and without keys.

use std::collections::HashSet;

use qiang_core::{
    book::Claim,
    campaign::CampaignKind,
    outcome::Outcome,
    ports::{Claimed, Engine as _, EngineError},
    split::SplitRule,
};
use qiang_redis::RedisEngine;
use qiang_testkit::campaign::{Target, red_packet, sale};

use crate::redis_faults::harness::{Answered, Harness, grant_of, name, open_now, options, shared};

/// Claims of one user. They form two or three batches.
const CLAIMS: usize = 600;
const STOCK: u32 = 1_000;

/// Claims concurrently on one node. The first claim goes alone, the others in the next batches.
async fn at_once(harness: &Harness, node: &RedisEngine, claims: Vec<Claim>) -> Vec<Answered> {
    let tickets: Vec<_> = claims
        .iter()
        .map(|claim| node.claim(claim.clone()))
        .collect();
    let mut answers = Vec::new();
    for (claim, ticket) in claims.into_iter().zip(tickets) {
        let answer: Result<Claimed, EngineError> = ticket.await;
        harness.record.note_claim(&claim, &answer);
        answers.push((claim, answer.unwrap()));
    }
    answers
}

/// Numbers of new grants, replays, and claims refused by the limit.
fn count(answers: &[Answered]) -> [usize; 3] {
    let of = |wanted: fn(&Outcome) -> bool| {
        answers
            .iter()
            .filter(|(_, claimed)| wanted(&claimed.outcome))
            .count()
    };
    [
        of(|outcome| matches!(outcome, Outcome::Granted(_))),
        of(|outcome| matches!(outcome, Outcome::AlreadyGranted(_))),
        of(|outcome| matches!(outcome, Outcome::LimitReached { .. })),
    ]
}

fn numbers(answers: &[Answered]) -> HashSet<u32> {
    answers
        .iter()
        .filter_map(|(_, claimed)| Some(grant_of(claimed)?.number))
        .collect()
}

async fn harness() -> Harness {
    Harness::new(options(shared().url())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_many_times_in_a_batch_has_one_grant() {
    let mut harness = harness().await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let targets = [
        harness
            .open(open_now(red_packet(1_000_000, STOCK, split)))
            .await,
        harness
            .open(open_now(red_packet(
                1_000_000,
                STOCK,
                SplitRule::Lazy { min: 1 },
            )))
            .await,
        harness.open(open_now(sale(STOCK))).await,
    ];
    for target in targets {
        // Two users in turn, so that duplicates of each are mixed.
        let answers = at_once(
            &harness,
            &harness.nodes[0],
            (0..CLAIMS).map(|n| target.one(&name(n % 2))).collect(),
        )
        .await;
        assert_eq!(count(&answers), [2, CLAIMS - 2, 0]);
        assert_eq!(numbers(&answers).len(), 2);
        // With keys: every key replays a share, but only its own key replays an order.
        let keyed = |n: usize| target.keyed("keyed", 1, &format!("key-{}", n % 3));
        let answers = at_once(
            &harness,
            &harness.nodes[0],
            (0..CLAIMS).map(keyed).collect(),
        )
        .await;
        let refused = match target.kind {
            CampaignKind::RedPacket => 0,
            CampaignKind::Sale => CLAIMS / 3 * 2,
        };
        assert_eq!(count(&answers), [1, CLAIMS - 1 - refused, refused]);
    }
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_many_times_in_a_batch_is_one_order() {
    let mut harness = harness().await;
    let target = harness.open(open_now(sale(STOCK)).limit(STOCK)).await;
    let answers = at_once(
        &harness,
        &harness.nodes[0],
        vec![target.keyed("user", 2, "key"); CLAIMS],
    )
    .await;
    assert_eq!(count(&answers), [1, CLAIMS - 1, 0]);
    assert_eq!(numbers(&answers).len(), 1);
    harness.replay(&answers).await;
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_a_batch_are_an_order_each_up_to_the_limit() {
    let mut harness = harness().await;
    let target = harness.open(open_now(sale(STOCK)).limit(100)).await;
    // Sixty keys ten times each, two units per key: fifty orders reach the limit.
    let keyed = |n: usize| target.keyed("user", 2, &format!("key-{}", n % 60));
    let answers = at_once(
        &harness,
        &harness.nodes[0],
        (0..CLAIMS).map(keyed).collect(),
    )
    .await;
    assert_eq!(count(&answers), [50, 450, 100]);
    assert_eq!(numbers(&answers).len(), 50);
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_a_key_in_a_batch_are_an_order_each_up_to_the_limit() {
    let mut harness = harness().await;
    let target = harness.open(open_now(sale(STOCK)).limit(100)).await;
    let answers = at_once(
        &harness,
        &harness.nodes[0],
        vec![target.one("user"); CLAIMS],
    )
    .await;
    assert_eq!(count(&answers), [100, 0, CLAIMS - 100]);
    assert_eq!(numbers(&answers).len(), 100);
    harness.audit().await;
}

/// Claims of one user on both nodes concurrently.
async fn hammer(harness: &Harness, claim: impl Fn(usize) -> Claim) -> Vec<Answered> {
    let claims = || (0..CLAIMS).map(&claim).collect();
    let [one, other] = &harness.nodes[..] else {
        panic!("two nodes");
    };
    let (mut answers, more) = tokio::join!(
        at_once(harness, one, claims()),
        at_once(harness, other, claims())
    );
    answers.extend(more);
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_hammer_for_one_user_get_one_grant() {
    let mut harness = harness().await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let packet: Target = harness
        .open(open_now(red_packet(1_000_000, STOCK, split)))
        .await;
    let on_sale = harness.open(open_now(sale(STOCK))).await;
    for target in [packet, on_sale] {
        let answers = hammer(&harness, |_| target.one("user")).await;
        assert_eq!(count(&answers), [1, 2 * CLAIMS - 1, 0]);
        assert_eq!(numbers(&answers).len(), 1);
    }
    let many = harness.open(open_now(sale(STOCK)).limit(100)).await;
    let answers = hammer(&harness, |n| {
        many.keyed("user", 2, &format!("key-{}", n % 30))
    })
    .await;
    assert_eq!(count(&answers), [30, 2 * CLAIMS - 30, 0]);
    assert_eq!(numbers(&answers).len(), 30);
    harness.audit().await;
}
