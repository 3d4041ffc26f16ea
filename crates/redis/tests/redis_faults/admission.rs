//! Admission: of a crowd, few reach Redis, and no unit is left because of it, whoever fails, vanishes or dies.

use std::time::{Duration, Instant};

use qiang_core::{
    book::{Claim, Command},
    outcome::Outcome,
    ports::{Claimed, Engine as _, EngineError, Ticket},
};
use qiang_redis::{BLOCK_LASTS, RedisEngine};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::harness::{Harness, blocking, grant_of, name, node, open_now, options, shared, winners};

const STOCK: u32 = 100;

/// Claims for some users, all at once, on all nodes in turn, without waiting for any answer.
fn crowd(nodes: &[RedisEngine], claims: &[Claim]) -> Vec<Ticket<Claimed>> {
    let on = |(n, claim): (usize, &Claim)| nodes[n % nodes.len()].claim(claim.clone());
    claims.iter().enumerate().map(on).collect()
}

async fn answers(
    harness: &Harness,
    claims: Vec<Claim>,
    tickets: Vec<Ticket<Claimed>>,
) -> Vec<(Claim, Claimed)> {
    let mut answered = Vec::new();
    for (claim, ticket) in claims.into_iter().zip(tickets) {
        let mut answer = ticket.await;
        // On a busy machine somebody may have to try again.
        while answer == Err(EngineError::NotAdmitted) {
            answer = harness.nodes[0].claim(claim.clone()).await;
        }
        harness.record.note_claim(&claim, &answer);
        answered.push((claim, answer.unwrap()));
    }
    answered
}

fn users(target: Target, count: usize) -> Vec<Claim> {
    (0..count).map(|n| target.one(&name(n))).collect()
}

fn decided(nodes: &[RedisEngine]) -> u64 {
    nodes.iter().map(|node| node.gate_answers().decided).sum()
}

/// Three nodes that have never heard of the sale.
async fn a_crowd_stays_outside(nodes: usize) {
    const CLAIMS: usize = 30_000;
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    for engine in std::mem::take(&mut harness.nodes) {
        engine.close().await;
    }
    for _ in 0..nodes {
        harness.nodes.push(node(&harness.options, &[]).await);
    }
    let claims = users(target, CLAIMS);
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(&harness, claims, tickets).await;
    assert_eq!(winners(&answered), STOCK as usize);
    for (claim, claimed) in &answered {
        let sold_out = claimed.outcome == Outcome::SoldOut { remaining: 0 };
        assert!(
            sold_out || grant_of(claimed).is_some(),
            "{claim:?} {claimed:?}"
        );
    }
    let decided = decided(&harness.nodes);
    assert!(decided >= u64::from(STOCK), "the count sees decisions");
    assert!(
        decided <= CLAIMS as u64 / 100,
        "{decided} of {CLAIMS} were decided by Redis"
    );
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_stays_outside_one_node() {
    a_crowd_stays_outside(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_stays_outside_three_nodes() {
    a_crowd_stays_outside(3).await;
}

/// Users who are let in and refused, or who have gone, leave their places to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_or_gone_keeps_nobody_out() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK).limit(2))).await;
    let mut claims = users(target, 3_000);
    for (n, claim) in claims.iter_mut().enumerate() {
        // Two of three ask for more than the sale allows.
        claim.quantity = if n % 3 == 0 { 1 } else { 3 };
    }
    let gone = crowd(&harness.nodes, &claims[2_000..]);
    let tickets = crowd(&harness.nodes, &claims[..2_000]);
    drop(gone);
    claims.truncate(2_000);
    let answered = answers(&harness, claims, tickets).await;
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert_eq!(tally.remaining, 0, "{tally:?}");
    let limited = |(_, claimed): &&(Claim, Claimed)| {
        matches!(
            claimed.outcome,
            Outcome::LimitReached { .. } | Outcome::SoldOut { .. }
        )
    };
    assert_eq!(
        answered.iter().filter(limited).count() + winners(&answered),
        2_000
    );
}

/// Orders that are cancelled while a crowd waits: their units are sold again, and nobody is told otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returned_units_are_open_at_once() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let first = users(target, STOCK as usize);
    let tickets = crowd(&harness.nodes, &first);
    let answered = answers(&harness, first, tickets).await;
    assert_eq!(winners(&answered), STOCK as usize);
    for (_, claimed) in answered.iter().take(20) {
        let order = grant_of(claimed).unwrap().order_id();
        harness.submit(0, Command::Cancel { order }).await.unwrap();
    }
    let started = Instant::now();
    let claims: Vec<_> = (0..2_000)
        .map(|n| target.one(&format!("next-{n}")))
        .collect();
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(&harness, claims, tickets).await;
    assert_eq!(winners(&answered), 20);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    harness.audit().await;
}

/// A node that is gone holds all places: others sell one by one, and as before when its block has run out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_nodes_block_leaves_nothing_unsold() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    blocking(|| {
        let time = server.primary().call(&["TIME"]).unwrap();
        let seconds: u64 = time.array()[0].text().unwrap().parse().unwrap();
        let until_ms = seconds * 1_000 + BLOCK_LASTS.as_millis() as u64;
        for partition in 0..2 {
            let (prefix, id) = (&harness.options.prefix, target.id);
            let key = format!("{prefix}:{{p{partition:02}}}:c:{id}:admissions");
            let block = format!("150 {until_ms}");
            let set = server.primary().call(&["HSET", &key, "dead", &block]);
            set.unwrap();
        }
    });
    let started = Instant::now();
    let mut waiting = users(target, 2 * STOCK as usize);
    let mut won = 0;
    while !waiting.is_empty() {
        let tickets = crowd(&harness.nodes, &waiting);
        let mut again = Vec::new();
        for (claim, ticket) in std::mem::take(&mut waiting).into_iter().zip(tickets) {
            let answer = ticket.await;
            harness.record.note_claim(&claim, &answer);
            match answer {
                Ok(claimed) => won += u32::from(grant_of(&claimed).is_some()),
                Err(EngineError::NotAdmitted) => again.push(claim),
                Err(error) => panic!("{error:?}"),
            }
        }
        waiting = again;
    }
    assert_eq!(won, STOCK);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    harness.audit().await;
}
