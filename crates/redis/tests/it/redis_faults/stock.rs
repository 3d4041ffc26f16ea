//! Changes of a sale's stock in steps, by nodes that die, and before a repair.

mod terms;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, Refusal, Reply},
    campaign::{STOCK_MAX, Tally},
    event::{Event, PartitionId},
    ports::{
        CampaignStore as _, Engine as _, EngineError, EventLog as _, RepairEngine as _,
        RepairState, SettlementStore as _,
    },
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};
use qiang_worker::settlement::settle_once;

use crate::redis_faults::harness::{
    Harness, INSIST_MAX, blocking, name, node, open_now, options, probe, shared, winners,
};

const SUPPLY: u32 = 20;
const ENTRIES_MAX: usize = 4_096;
/// Maximum attempts on a node that does not answer.
const ATTEMPTS_MAX: usize = 1_000;

/// A sale on two nodes, with a ledger.
struct World {
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    target: Target,
    _folder: tempfile::TempDir,
}

impl World {
    /// Creates a sale of this many shards, 1 or 2.
    async fn new(parts: u16) -> Self {
        let shard_supply_min = match parts {
            1 => u32::MAX,
            _ => 2,
        };
        let mut harness = Harness::new(RedisOptions {
            shard_supply_min,
            shards_max: parts,
            ..options(shared().url())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        let builder = open_now(sale(SUPPLY)).price(1).hold_ms(3_600_000);
        ledger.create(&builder.setup(1)).await.unwrap();
        let target = harness.open(builder).await;
        Self {
            harness,
            ledger,
            target,
            _folder: folder,
        }
    }

    async fn set(&self, stock: u64) -> Result<Tally, Refusal> {
        set(&self.harness.nodes[0], self.target, stock).await
    }

    async fn tally(&self) -> Tally {
        let tally = self.harness.nodes[1].tally(self.target.id).await;
        tally.unwrap().unwrap()
    }

    /// Claims of users `from` to `upto`. Returns the number of grants.
    async fn grant(&self, from: usize, upto: usize) -> usize {
        let claims = (from..upto).map(|n| self.target.one(&name(n)));
        winners(&self.harness.ask_all(claims.collect()).await)
    }

    async fn settle(&self) {
        let node = &self.harness.nodes[1];
        for partition in node.partitions() {
            loop {
                match settle_once(node, &*self.ledger, partition, ENTRIES_MAX).await {
                    Ok(step) if step.settled == step.head => break,
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        }
    }

    /// The stock in the ledger after settlement.
    async fn settled(&self) -> u64 {
        self.settle().await;
        let record = self.ledger.campaign(self.target.id).await;
        record.unwrap().unwrap().campaign.supply()
    }

    /// The partition of the sale's first shard, and the other one.
    fn partitions(&self) -> (PartitionId, PartitionId) {
        let key = |tag: &str| {
            format!(
                "{}:{{{tag}}}:c:{}",
                self.harness.options.prefix, self.target.id
            )
        };
        let index = blocking(|| shared().primary().call(&["HGET", &key("p00"), "index"])).unwrap();
        match index.text() {
            Some("0") => (PartitionId(0), PartitionId(1)),
            _ => (PartitionId(1), PartitionId(0)),
        }
    }

    /// Repairs a partition as after a loss.
    async fn unite(&self, partition: PartitionId) {
        let united = self.harness.nodes[0].unite(partition, &*self.ledger).await;
        let Ok(RepairState::Repaired(report)) = united else {
            panic!("{united:?}");
        };
        assert_eq!((report.withheld, report.conflicts), (0, Vec::new()));
        // The other node learns at its next presence call that the partition grants again.
        let until = Instant::now() + INSIST_MAX;
        while let Err(error) = probe(&self.harness.nodes[1]).await {
            assert!(Instant::now() < until, "{error:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Checks that engine and ledger agree.
    async fn check(&self) {
        self.settle().await;
        let node = &self.harness.nodes[0];
        for partition in node.partitions() {
            let found = node
                .differences(partition, self.target.id, &*self.ledger)
                .await;
            assert_eq!(found.unwrap(), [], "{partition:?}");
        }
        assert_eq!(self.settled().await, self.tally().await.supply);
    }
}

async fn set(node: &RedisEngine, target: Target, stock: u64) -> Result<Tally, Refusal> {
    let campaign = target.id;
    for _ in 0..ATTEMPTS_MAX {
        match node.submit(Command::SetStock { campaign, stock }).await {
            Ok(Reply::Acted(tally)) => return Ok(tally),
            Err(EngineError::Refused(refusal)) => return Err(refusal),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok(other) => panic!("{other:?}"),
        }
    }
    panic!("no answer to a stock change to {stock}");
}

/// The second shard is repaired before the first shard's change of the stock is settled. It gets no removed unit and
/// loses no new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_repaired_by_the_stock_of_the_first_one() {
    let world = World::new(2).await;
    assert_eq!(world.grant(0, 4).await, 4);
    world.settle().await;
    let (first, second) = world.partitions();
    for (stock, partition) in [
        (8, second),
        (30, second),
        (6, first),
        (12, first),
        (STOCK_MAX, second),
        (STOCK_MAX - 1, first),
        (9, second),
    ] {
        assert_eq!(world.set(stock).await.unwrap().supply, stock);
        world.unite(partition).await;
        let tally = world.tally().await;
        assert_eq!((tally.supply, tally.granted), (stock, 4));
    }
    assert_eq!(world.grant(4, 20).await, 5);
    world.check().await;
    assert_eq!(world.set(12).await.unwrap().remaining, 3);
    world.check().await;
}

/// The log has lost the entry, and the first shard's hash has the stock. The repair appends the entry again.
async fn is_said_again(parts: u16, stock: u64) {
    let world = World::new(parts).await;
    assert_eq!(world.grant(0, 4).await, 4);
    world.settle().await;
    let (first, _) = world.partitions();
    world.set(stock).await.unwrap();
    // More grants than before, if the stock is larger now.
    let granted = 4 + world.grant(4, 60).await as u64;
    assert_eq!(granted, stock);
    let node = &world.harness.nodes[0];
    let after = world.ledger.settled(first).await.unwrap();
    let entries = node.read(first, after, ENTRIES_MAX).await.unwrap();
    let changed = |event: &Event| matches!(event, Event::StockChanged { .. });
    let lost = entries.iter().find(|entry| changed(&entry.event)).unwrap();
    let log = format!("{}:{{p{:02}}}:log", world.harness.options.prefix, first.0);
    let id = format!("{}-0", lost.seq);
    let deleted = blocking(|| shared().primary().call(&["XDEL", &log, &id])).unwrap();
    assert_eq!(deleted.integer(), Some(1));
    world.unite(first).await;
    let tally = world.tally().await;
    assert_eq!((tally.supply, tally.granted), (stock, stock));
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_that_only_the_first_part_has_is_said_again() {
    for parts in [1, 2] {
        for stock in [8, 35] {
            is_said_again(parts, stock).await;
        }
    }
}

/// A node dies at later and later steps of a decrease that takes units from both shards. A retry finishes it, and no
/// unit is lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_dies_while_it_changes_the_stock() {
    let mut changed = 0;
    for n in 0..12_u64 {
        let world = World::new(2).await;
        assert_eq!(world.grant(0, 2).await, 2);
        // All tasks of the node end with this runtime.
        let runtime = blocking(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_all().build().unwrap()
        });
        let options = world.harness.options.clone();
        let connecting = runtime.spawn(async move { node(&options, &[]).await });
        let dying = connecting.await.unwrap();
        let campaign = world.target.id;
        let ticket = dying.submit(Command::SetStock { campaign, stock: 3 });
        tokio::time::sleep(Duration::from_micros(300 * n)).await;
        runtime.shutdown_background();
        drop(ticket);
        changed += u32::from(world.tally().await.supply == 3);
        let tally = world.set(3).await.unwrap();
        assert_eq!((tally.supply, tally.remaining), (3, 1), "{n}");
        let least = Refusal::StockGranted { least: 2 };
        assert_eq!(world.set(1).await, Err(least));
        let supply = u64::from(SUPPLY);
        let tally = world.set(supply).await.unwrap();
        assert_eq!((tally.supply, tally.remaining), (supply, supply - 2));
        world.check().await;
        assert_eq!(world.grant(2, 60).await, SUPPLY as usize - 2);
        world.check().await;
    }
    println!("{changed} of 12 nodes had changed it when they died");
}
