//! A node that dies with all places of a sale keeps the others waiting for no longer than its block lasts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use qiang_redis::{BLOCK_LASTS, RedisEngine};
use qiang_testkit::campaign::{Target, sale};
use tokio::task::JoinHandle;

use super::{STOCK, all_granted, crowd, users};
use crate::harness::{Harness, blocking, open_now, options, shared};

/// Users whom the sale admits.
const ADMITTED: u32 = STOCK * 3 / 2;

/// Users who want more than the sale allows ask a node all the time: they need places, and take no unit.
fn ask_on(node: &RedisEngine, target: Target) -> JoinHandle<()> {
    let node = node.clone();
    tokio::spawn(async move {
        let claims: Vec<_> = (0..4 * STOCK)
            .map(|n| target.units(&format!("greedy-{n}"), 2))
            .collect();
        loop {
            for ticket in crowd(std::slice::from_ref(&node), &claims) {
                let answer = ticket.await;
                if !answer.is_ok_and(|claimed| claimed.outcome.name() == "limit_reached") {
                    return; // the node is gone
                }
            }
        }
    })
}

/// The places that nodes have in Redis.
fn blocks(harness: &Harness, target: Target) -> BTreeMap<String, u32> {
    let (prefix, id) = (&harness.options.prefix, target.id);
    let mut blocks = BTreeMap::new();
    for partition in 0..2 {
        let key = format!("{prefix}:{{p{partition:02}}}:c:{id}:admissions");
        let all = blocking(|| shared().primary().call(&["HGETALL", &key])).unwrap();
        for pair in all.array().chunks(2) {
            let [node, block] = [&pair[0], &pair[1]].map(|text| text.text().unwrap());
            let users = block.split(' ').next().unwrap();
            blocks.insert(node.to_owned(), users.parse().unwrap());
        }
    }
    blocks
}

/// Waits until one node, and not this one, has all places; its name.
async fn has_all(harness: &Harness, target: Target, other: &str, wait_max: Duration) -> String {
    let until = Instant::now() + wait_max;
    loop {
        let blocks = blocks(harness, target);
        let mut holders = blocks.iter().filter(|(_, users)| **users > 0);
        if let (Some((node, &ADMITTED)), None) = (holders.next(), holders.next())
            && node != other
        {
            return node.clone();
        }
        assert!(Instant::now() < until, "{blocks:?} after {wait_max:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_held_that_died_is_leased_again() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let patience = 20 * BLOCK_LASTS;
    let dying = harness.nodes.pop().unwrap();
    let asking = ask_on(&dying, target);
    let dead = has_all(&harness, target, "", patience).await;
    dying.abort();
    asking.abort();
    let asking = ask_on(&harness.nodes[0], target);
    has_all(&harness, target, &dead, patience).await;
    asking.abort();
    // And everybody who asks for what there is gets it at the first attempt.
    all_granted(&harness, users(target, STOCK as usize)).await;
    harness.audit().await;
}
