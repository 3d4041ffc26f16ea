//! Tests of blocks leased by `admit.lua`, on a real server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use qiang_core::{
    admission::AdmissionBound,
    book::{Command, Reply},
    campaign::SaleSettingsChange,
    ports::Engine as _,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use super::{BLOCK_LASTS, Block};
use crate::{RedisEngine, RedisOptions, protocol::scripts::ADMIT};

/// With 100 units left, 150 users are admitted.
const STOCK: u32 = 100;
const ADMITTED: u32 = 150;

struct SaleBlocks {
    server: Standalone,
    engine: RedisEngine,
    target: Target,
}

impl SaleBlocks {
    async fn new() -> Self {
        let server = tokio::task::block_in_place(|| Standalone::start(&ServerOptions::new()));
        let options = RedisOptions {
            urls: vec![server.url()],
            partitions: 1,
            prefix: "blocks".to_owned(),
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options, &[]).await.unwrap();
        let setup = sale(STOCK).setup(1);
        let target = Target::of(&setup);
        engine.submit(Command::Open(Box::new(setup))).await.unwrap();
        Self {
            server,
            engine,
            target,
        }
    }

    /// A node requests a block for `users` users.
    async fn lease(&self, node: &str, users: u32, lasts: Duration) -> u32 {
        let partitions = &self.engine.node.partitions;
        let (home, lasts_ms) = (partitions.home(self.target.id), lasts.as_millis() as u64);
        let reply = partitions
            .call(home, &ADMIT, self.target.id, None, &|command| {
                command.arg(node).arg(users).arg(lasts_ms)
            })
            .await
            .unwrap();
        assert!(reply.is_ok(), "{}", reply.text());
        let block = Block::parse(&reply.text()).unwrap();
        assert_eq!(block.left, u64::from(STOCK));
        block.users
    }
}

/// One node has all permits until others request some. Then each gets its request, or an equal share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_what_is_admitted() {
    let sale = SaleBlocks::new().await;
    let lasts = Duration::from_secs(60);
    let mut held = std::collections::BTreeMap::new();
    for (node, wants, gets) in [
        ("a", 400, ADMITTED),
        ("b", 400, 0),
        ("a", 400, 75),
        ("b", 400, 75),
        ("c", 10, 0),
        ("a", 400, 65),
        ("c", 10, 10),
        ("b", 400, 75),
        // It requests less, and keeps some spare permits.
        ("b", 1, 9),
        ("a", 400, 131),
    ] {
        assert_eq!(sale.lease(node, wants, lasts).await, gets, "{node}");
        held.insert(node, gets);
        let all: u32 = held.values().sum();
        assert!(all <= ADMITTED, "{held:?}");
    }
}

/// A dead node's permits are free after some time. They are free at once if the block lasts longer than possible,
/// because the server's clock was set back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_holds_is_free_again() {
    let sale = SaleBlocks::new().await;
    assert_eq!(sale.lease("dead", 400, BLOCK_LASTS).await, ADMITTED);
    assert_eq!(sale.lease("alive", 400, BLOCK_LASTS).await, 0);
    tokio::time::sleep(BLOCK_LASTS).await;
    assert_eq!(sale.lease("alive", 400, BLOCK_LASTS).await, ADMITTED);
    tokio::time::sleep(BLOCK_LASTS).await;
    let year = BLOCK_LASTS * 2 * 60 * 60 * 24 * 365;
    assert_eq!(sale.lease("dead", 400, year).await, ADMITTED);
    assert_eq!(sale.lease("alive", 400, BLOCK_LASTS).await, ADMITTED);
    let key = format!("blocks:{{p00}}:c:{}:admissions", sale.target.id);
    let nodes = tokio::task::block_in_place(|| sale.server.primary().call(&["HKEYS", &key]));
    let nodes = nodes.unwrap();
    let nodes: Vec<_> = nodes.array().iter().map(|node| node.text()).collect();
    assert_eq!(nodes, [Some("alive")]);
}

/// Blocks follow the present ratio, not the one that the node has read with the sale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_follow_changed_admission() {
    let sale = SaleBlocks::new().await;
    let lasts = Duration::from_secs(60);
    assert_eq!(sale.lease("a", 400, lasts).await, ADMITTED);
    for (percent, users) in [(300, 300), (100, 100), (0, 268_435_455)] {
        let change = SaleSettingsChange {
            admission: Some(AdmissionBound::from_percent(percent).unwrap()),
            ..SaleSettingsChange::default()
        };
        let campaign = sale.target.id;
        let set = Command::SetTerms { campaign, change };
        let Reply::Acted(tally) = sale.engine.submit(set).await.unwrap() else {
            panic!("a change is answered by a tally");
        };
        assert_eq!(Some(tally.terms.unwrap().admission), change.admission);
        assert_eq!(sale.lease("a", 400, lasts).await, users, "{percent} %");
    }
}
