//! Claims that wait for units of another partition are limited, so that a partition that does not answer cannot fill a
//! node.

use std::{ops::Range, sync::Arc, time::Duration};

use qiang_core::ports::{Engine as _, EngineError};
use qiang_redis::{RedisOptions, Topology};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Cluster, Options as ServerOptions, slot_of_partition},
};

use crate::redis_faults::harness::{Harness, blocking, name, open_now, options};

const STOCK: u32 = 1_000;
/// About half of the claims belong to the shard on `p02`, which is more than may wait there.
const CLAIMS: usize = 45_000;
/// A number of claims within the limit.
const FEW: usize = 5_000;
/// Maximum claims of one shard that wait: `WAITING_PART_MAX` of transfer.rs, and those served from its own units.
const WAITING_MAX: usize = 16_384 + STOCK as usize;

/// Claims once for each of these users, concurrently. Returns the number of claims refused as overload.
async fn ask_once(harness: &Harness, target: Target, users: Range<usize>) -> usize {
    let claims: Vec<_> = users.map(|n| target.one(&name(n))).collect();
    let tickets: Vec<_> = claims
        .iter()
        .map(|claim| harness.nodes[0].claim(claim.clone()))
        .collect();
    let mut overloaded = 0;
    for (claim, ticket) in claims.iter().zip(tickets) {
        let answer = ticket.await;
        overloaded += usize::from(answer == Err(EngineError::Overloaded));
        harness.record.note_claim(claim, &answer);
    }
    overloaded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_wait_for_a_silent_part_are_bounded() {
    let cluster = blocking(|| Arc::new(Cluster::start(&ServerOptions::new())));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        shard_supply_min: 2,
        shards_max: 2,
        claim_timeout: Duration::from_secs(4),
        ..options(String::new())
    })
    .await;
    // The second campaign has its shards on p02 and p03.
    harness.open(open_now(sale(1))).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let giver = blocking(|| cluster.primary_of_slot(slot_of_partition(3, 4)));
    blocking(|| giver.pause());
    let overloaded = ask_once(&harness, target, 0..CLAIMS).await;
    let fewest = CLAIMS * 4 / 10 - WAITING_MAX;
    assert!(
        overloaded >= fewest,
        "only {overloaded} claims were refused"
    );
    blocking(|| {
        giver.resume();
        cluster.wait_until_whole();
    });
    // Refused users may retry.
    for from in (0..CLAIMS).step_by(FEW) {
        let overloaded = ask_once(&harness, target, from..from + FEW).await;
        assert_eq!(overloaded, 0, "this number of claims is within the limit");
    }
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert_eq!((tally.granted, tally.remaining), (STOCK.into(), 0));
    harness.audit().await;
}
