//! A partition's slot moves to another server of the Cluster and back while two nodes claim: nothing is lost, nothing
//! is granted twice, and everybody is answered in the end.

use std::time::Duration;

use qiang_core::{
    book::{Command, Reply},
    id::PaymentRef,
    ports::Engine as _,
};
use qiang_redis::{Options, Topology};
use qiang_testkit::{
    campaign::sale,
    servers::redis::{Cluster, Options as ServerOptions},
};

use crate::harness::{Harness, SHORT_PAUSE, blocking, grant_of, name, open_now, options};

/// The slots of `p02` and `p03`, which are on different primaries at first.
const SLOT_OF_P02: u16 = 2_956;
const SLOT_OF_P03: u16 = 7_085;
const STOCK: u32 = 1_000_000;
/// Between the moves of a few keys: long enough for calls to meet every stage.
const PAUSE: Duration = Duration::from_millis(30);
const MOVES: usize = 4;

async fn moves(spread: bool) {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let mut harness = Harness::new(Options {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        spread_from: if spread { 2 } else { u32::MAX },
        spread_over: 4,
        ..options(String::new())
    })
    .await;
    let mut targets = Vec::new();
    for _ in 0..8 {
        targets.push(harness.open(open_now(sale(STOCK))).await);
    }
    let count = targets.len();
    let load = harness.start(move |n| Some(targets[n % count].one(&name(n))), SHORT_PAUSE);
    load.more(200).await;
    let homes = blocking(|| [SLOT_OF_P03, SLOT_OF_P02].map(|slot| cluster.primary_of_slot(slot)));
    assert_ne!(homes[0].addr(), homes[1].addr());
    for n in 0..MOVES {
        let moved = blocking(|| cluster.move_slot(SLOT_OF_P03, homes[(n + 1) % 2], PAUSE));
        assert!(moved > 3, "{moved} keys were moved");
        load.more(200).await;
    }
    let answers = load.stop().await;
    // What was granted on the way is known wherever it is now.
    let grants: Vec<_> = answers
        .iter()
        .filter_map(|(_, claimed)| grant_of(claimed))
        .collect();
    assert_eq!(grants.len(), answers.len());
    harness.replay(&answers[..answers.len().min(500)]).await;
    for (n, grant) in grants.iter().enumerate().take(40) {
        let order = grant.order_id();
        let payment = PaymentRef::new(&format!("payment-{n}")).unwrap();
        let paid = harness.submit(n % 2, Command::Pay { order, payment }).await;
        assert!(matches!(paid, Ok(Reply::Payment(..))), "{paid:?}");
        assert!(harness.nodes[n % 2].order(order).await.unwrap().is_some());
    }
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    moves(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_while_units_move_between_parts() {
    moves(true).await;
}
