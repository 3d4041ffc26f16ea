//! Redis restarts empty, once or several times, with and without load. A repair may stop at every step, be repeated,
//! and race with another. At the end every unit exists exactly once, and all partitions grant.

mod cluster;
mod full_disk;
mod stopped;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::Command,
    event::PartitionId,
    id::CampaignId,
    order::OrderState,
    ports::{
        CampaignStore as _, Engine as _, EventLog as _, Ledger, RepairEngine, RepairStore as _,
        SettlementStore as _,
    },
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target, sale},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};

use crate::redis_faults::harness::{
    Harness, INSIST_MAX, blocking, grant_of, name, node, open_now, options, patient, wait_for,
};

/// Units of the large sale.
const MANY: u32 = 1_200_000;
/// Units of the sale with a repair that stops at every step.
const SOME: u32 = 1_000;
/// Claims between two faults.
const CLAIMS: usize = 300;
/// Maximum entries that no node can name: answers in flight when Redis lost them.
const UNKNOWN_MAX: u64 = 500;
/// Claims per round that are settled before Redis is emptied, and claims that are not.
const SETTLED: usize = 4;
const UNSETTLED: usize = 6;
const PAUSE: Duration = Duration::from_millis(20);

struct World<S = Standalone> {
    server: S,
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    hosts: Vec<Host>,
    settling: Option<tokio::task::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl<S> World<S> {
    async fn over(server: S, options: RedisOptions) -> Self {
        let harness = Harness::new(options).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        Self {
            server,
            harness,
            ledger,
            hosts: Vec::new(),
            settling: None,
            _folder: folder,
        }
    }

    async fn open(&mut self, builder: Builder) -> Target {
        let setup = builder.setup(self.harness.setups.len() as u64 + 1);
        self.ledger.create(&setup).await.unwrap();
        self.harness.open(builder).await
    }

    /// Starts all nodes' repairs. One node settles and reports positions to the others, as processes do.
    fn run(&mut self) {
        for node in &self.harness.nodes {
            let host = Host::new("monitor");
            let ledger: Arc<dyn Ledger> = self.ledger.clone();
            let node: Arc<dyn RepairEngine> = Arc::new(node.clone());
            repair::start_all(&host, &node, &ledger, RepairMode::Automatic);
            self.hosts.push(host);
        }
        let (nodes, ledger) = (self.harness.nodes.clone(), self.ledger.clone());
        self.settling = Some(tokio::spawn(async move {
            loop {
                for partition in nodes[1].partitions() {
                    // A failure is retried in the next round.
                    let _ = settle_once(&nodes[1], &*ledger, partition, 4_096).await;
                }
                tell(&nodes, &ledger).await;
                tokio::time::sleep(PAUSE).await;
            }
        }));
    }

    async fn settle_all(&self) {
        let node = &self.harness.nodes[1];
        for partition in node.partitions() {
            let until = Instant::now() + INSIST_MAX;
            loop {
                match settle_once(node, &*self.ledger, partition, 4_096).await {
                    Ok(step) if step.settled == step.head => break,
                    step => assert!(Instant::now() < until, "{step:?}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn all_halted(&self) {
        let halted = |node: &RedisEngine| {
            let mut all = node.partitions().into_iter();
            all.all(|id| {
                matches!(
                    node.state(id),
                    PartitionHealth::Halted { lost: Some(_), .. }
                )
            })
        };
        wait_for("the halt", || self.harness.nodes.iter().all(halted)).await;
    }

    fn is_open(&self) -> bool {
        let open = |node: &RedisEngine| {
            let mut all = node.partitions().into_iter();
            all.all(|id| node.state(id) == PartitionHealth::Open)
        };
        self.harness.nodes.iter().all(open)
    }

    async fn all_open(&self) {
        wait_for("all partitions", || self.is_open()).await;
    }

    /// Units of a campaign that repairs have withheld, from the ledger.
    async fn withheld(&self, campaign: CampaignId) -> u64 {
        let mut units = 0;
        for partition in self.harness.nodes[0].partitions() {
            let records = self.ledger.withheld(partition).await.unwrap();
            let own = records.iter().filter(|it| it.campaign == campaign);
            units += own.map(|it| it.units).sum::<u64>();
        }
        units
    }

    /// Checks that no unit is missing and at most this many are withheld.
    async fn check(&self, target: Target, units: u32, withheld_max: u64) {
        self.settle_all().await;
        let withheld = self.withheld(target.id).await;
        let tally = self.harness.nodes[0].tally(target.id).await;
        let tally = tally.unwrap().unwrap();
        println!("{withheld} units are withheld: {tally:?}");
        assert!(withheld <= withheld_max, "{withheld} units are withheld");
        assert!(tally.conserves(), "{tally:?}");
        assert_eq!((tally.supply, tally.withheld), (u64::from(units), withheld));
        let record = self.ledger.campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.granted, tally.granted);
        for partition in self.harness.nodes[0].partitions() {
            let node = &self.harness.nodes[0];
            let found = node.differences(partition, target.id, &*self.ledger).await;
            assert_eq!(found.unwrap(), [], "{partition:?}");
        }
        let mut users: Vec<_> = self.harness.grants().into_values().collect();
        let grants = users.len();
        users.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        users.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(users.len(), grants, "a user has two grants");
    }
}

impl World {
    async fn new(options: impl FnOnce(String) -> RedisOptions) -> Self {
        Box::pin(Self::on(&ServerOptions::new(), options)).await
    }

    async fn on(servers: &ServerOptions, options: impl FnOnce(String) -> RedisOptions) -> Self {
        let server = blocking(|| Standalone::start(servers));
        let options = options(server.url());
        Self::over(server, options).await
    }

    fn redis(&self) -> &Server {
        self.server.primary()
    }

    fn flush(&self) {
        blocking(|| self.redis().call(&["FLUSHALL"]).unwrap());
    }

    /// Number of calls that Redis answered with this error.
    fn refused(&self, error: &str) -> u32 {
        let stats = blocking(|| self.redis().call(&["INFO", "errorstats"])).unwrap();
        let stats = stats.text().unwrap_or_default().to_owned();
        let count = stats.split(&format!("errorstat_{error}:count=")).nth(1);
        let count = count.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        count.unwrap_or_default()
    }

    fn limit(&self, bytes: &str) {
        let words = ["CONFIG", "SET", "maxmemory", bytes];
        blocking(|| self.redis().call(&words).unwrap());
    }

    fn key(&self, partition: u16) -> String {
        let prefix = &self.harness.options.prefix;
        format!("{prefix}:{{p{partition:02}}}:partition")
    }

    fn has_field(&self, partition: u16, field: &str) -> bool {
        let key = self.key(partition);
        let reply = blocking(|| self.redis().call(&["HEXISTS", &key, field]).unwrap());
        reply.integer() == Some(1)
    }

    /// Waits until this many nodes have offered their answers of the loss to each partition.
    async fn all_offered(&self, nodes: usize) {
        wait_for("the offers", || (0..2).all(|id| self.offers(id) >= nodes)).await;
    }

    /// Number of nodes that have offered all their answers of a partition's current loss.
    fn offers(&self, partition: u16) -> usize {
        let key = self.key(partition);
        let answers = key.replace(":partition", ":answers");
        blocking(|| {
            let words = ["HMGET", &key, "lost_from", "lost_to"];
            let loss = self.redis().call(&words).unwrap();
            let loss: Vec<&str> = loss.array().iter().filter_map(|it| it.text()).collect();
            let loss = loss.join("-");
            let offers = self.redis().call(&["HVALS", &answers]).unwrap();
            let texts = offers.array().iter().filter_map(|it| it.text());
            // The value is `LOSS ATTEMPT ALL-FROM` once the last chunk is there.
            texts
                .map(|it| it.split(' ').collect::<Vec<_>>())
                .filter(|words| words.len() == 3 && words[0] == loss)
                .count()
        })
    }
}

impl<S> Drop for World<S> {
    fn drop(&mut self) {
        if let Some(settling) = self.settling.take() {
            settling.abort();
        }
    }
}

/// Reports the ledger's positions to the nodes.
async fn tell(nodes: &[RedisEngine], ledger: &SqliteLedger) {
    let positions = ledger.positions().await.unwrap();
    for node in nodes {
        for (partition, settled) in &positions {
            node.note_settled(*partition, *settled);
        }
        node.release_kept(&positions);
    }
}

/// Time of a second loss.
#[derive(Debug, Clone, Copy)]
enum Again {
    /// While nodes offer their answers.
    Waiting,
    /// When a repair has started to move positions.
    Repairing,
    /// When all partitions grant again.
    Repaired,
}

/// A large spread sale and a small sale, under load.
async fn is_emptied(again: &[Again]) {
    let mut world = World::new(|url| RedisOptions {
        partitions: 8,
        ..options(url)
    })
    .await;
    let target = world.open(open_now(sale(MANY)).hold_ms(3_600_000)).await;
    let small = world.open(open_now(sale(50)).hold_ms(3_600_000)).await;
    world.run();
    let made = move |n: usize| match n % 50 {
        0 => Some(small.one(&name(n))),
        _ => Some(target.one(&name(n))),
    };
    let load = world.harness.start(made, PAUSE);
    load.more(CLAIMS).await;
    world.flush();
    for again in again {
        match again {
            Again::Waiting => world.all_halted().await,
            Again::Repairing => {
                let noted = || (0..8).any(|id| world.has_field(id, "repair_unnamed"));
                wait_for("a repair", noted).await;
            }
            Again::Repaired => {
                world.all_open().await;
                load.more(CLAIMS).await;
            }
        }
        world.flush();
    }
    let emptied = Instant::now();
    world.all_halted().await;
    world.all_open().await;
    println!("all partitions grant after {:?}", emptied.elapsed());
    load.more(CLAIMS).await;
    let answers = load.stop().await;
    world.settling.take().unwrap().abort();
    world.check(target, MANY, UNKNOWN_MAX).await;
    world.harness.replay(&answers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_emptied_grants_again() {
    is_emptied(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_emptied_again_and_again_grants_again() {
    is_emptied(&[Again::Waiting, Again::Repairing, Again::Repaired]).await;
}

/// A partition that has lost everything is repaired while Redis has no free memory, also from a shard that lost
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_repaired_without_memory() {
    let mut world = World::new(|url| RedisOptions {
        shard_supply_min: 100,
        ..options(url)
    })
    .await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let claims = (0..20).map(|n| target.one(&name(n))).collect();
    let mut answers = world.harness.ask_all(claims).await;
    world.settle_all().await;
    let claims = (20..40).map(|n| target.one(&name(n))).collect();
    answers.extend(world.harness.ask_all(claims).await);
    world.limit("1");
    let pattern = world.key(0).replace(":partition", ":*");
    let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
    let script = format!("#!lua flags=allow-oom\n{script}");
    blocking(|| world.redis().call(&["EVAL", &script, "0", &pattern])).unwrap();
    let lost = || world.has_field(0, "lost_to");
    wait_for("the loss", lost).await;
    world.run();
    world.all_open().await;
    world.limit("0");
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    world.harness.replay(&answers).await;
}

/// Redis refuses writes while it has too few replicas, also those of a repair. The repair continues once the replicas
/// return, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_repaired_once_replicas_return() {
    let mut world = World::new(options).await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let claims = (0..20).map(|n| target.one(&name(n))).collect();
    let mut answers = world.harness.ask_all(claims).await;
    world.settle_all().await;
    let claims = (20..40).map(|n| target.one(&name(n))).collect();
    answers.extend(world.harness.ask_all(claims).await);
    world.flush();
    world.all_halted().await;
    let need = |world: &World, replicas: &str| {
        let words = ["CONFIG", "SET", "min-replicas-to-write", replicas];
        blocking(|| world.redis().call(&words)).unwrap();
    };
    need(&world, "1");
    world.run();
    wait_for("refused steps", || world.refused("NOREPLICAS") >= 50).await;
    let is_open = |node: &RedisEngine| node.state(PartitionId(0)) == PartitionHealth::Open;
    assert!(!world.harness.nodes.iter().any(is_open));
    need(&world, "0");
    world.all_open().await;
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    world.harness.replay(&answers).await;
}

/// Redis refuses writes while its snapshots fail, also those of a repair. The repair continues once a snapshot
/// succeeds, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_repaired_once_snapshots_succeed() {
    let mut world = World::new(options).await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let claims = (0..20).map(|n| target.one(&name(n))).collect();
    let mut answers = world.harness.ask_all(claims).await;
    world.settle_all().await;
    let claims = (20..40).map(|n| target.one(&name(n))).collect();
    answers.extend(world.harness.ask_all(claims).await);
    // A folder in place of the snapshot makes it fail, as a full disk does.
    let snapshot = world.redis().resources().folder().join("dump.rdb");
    drop(std::fs::remove_file(&snapshot));
    std::fs::create_dir(&snapshot).unwrap();
    let save = |world: &World, when: &str| {
        let words = ["CONFIG", "SET", "save", when];
        blocking(|| world.redis().call(&words)).unwrap();
    };
    save(&world, "3600 1");
    let status = |world: &World, wanted: &str| {
        // The command is refused while another snapshot runs, which serves the same purpose.
        drop(blocking(|| world.redis().call(&["BGSAVE"])));
        let found = blocking(|| world.redis().info("persistence", "rdb_last_bgsave_status"));
        found.is_some_and(|found| found.trim() == wanted)
    };
    world.flush();
    world.all_halted().await;
    wait_for("a snapshot that fails", || status(&world, "err")).await;
    world.run();
    wait_for("refused steps", || world.refused("MISCONF") >= 50).await;
    assert!(!world.is_open());
    std::fs::remove_dir(&snapshot).unwrap();
    wait_for("a snapshot that succeeds", || status(&world, "ok")).await;
    save(&world, "");
    world.all_open().await;
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    world.harness.replay(&answers).await;
}

/// Free orders stay paid, also if only nodes know them, and no unit is withheld for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_orders_stay_paid_when_redis_is_emptied() {
    let mut world = World::new(options).await;
    let target = world.open(open_now(sale(SOME)).price(0)).await;
    let claims = |users: std::ops::Range<usize>| users.map(|n| target.one(&name(n))).collect();
    let mut answers = world.harness.ask_all(claims(0..20)).await;
    world.settle_all().await;
    answers.extend(world.harness.ask_all(claims(20..40)).await);
    world.flush();
    world.all_halted().await;
    world.run();
    world.all_open().await;
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    let rows = world.ledger.grants(target.id, 0, 100).await.unwrap();
    assert_eq!(rows.len(), 40);
    for row in rows {
        let order = target.order(row.number);
        let view = world.harness.nodes[0].order(order).await.unwrap().unwrap();
        let state = view.grant.order.map(|order| order.state);
        assert_eq!(
            (row.state, state),
            (OrderState::Paid, Some(OrderState::Paid))
        );
    }
    world.harness.replay(&answers).await;
}

/// A repair reads the campaigns of its partition, not those of all partitions: with many partitions it would read the
/// rows of each campaign once for each of them. A draft may be opened anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_reads_campaigns_of_its_partition_alone() {
    let mut world = World::new(options).await;
    let mut targets = Vec::new();
    for _ in 0..12 {
        targets.push(world.open(open_now(sale(SOME))).await);
    }
    let claims = targets
        .iter()
        .map(|target| target.one(&target.id.to_string()));
    world.harness.ask_all(claims.collect()).await;
    world.settle_all().await;
    let draft = sale(SOME).setup(targets.len() as u64 + 1);
    world.ledger.create(&draft).await.unwrap();
    let node = &world.harness.nodes[0];
    for partition in node.partitions() {
        let live = node.live_campaigns(partition, &*world.ledger).await;
        let is_here = |target: &&Target| node.partition_of(&target.one("a")) == partition;
        let mut expected: Vec<CampaignId> =
            targets.iter().filter(is_here).map(|it| it.id).collect();
        assert!(expected.len() > 1, "{partition:?}");
        expected.push(draft.campaign.id);
        expected.sort_unstable();
        assert_eq!(live.unwrap(), expected, "{partition:?}");
    }
}

/// Waits until the gate of a node answers users without a grant.
async fn learn_sold_out(node: &RedisEngine, target: Target) {
    let loser = target.one("loser");
    let until = Instant::now() + INSIST_MAX;
    while node.try_gate_outcome(&loser).is_none() {
        assert!(Instant::now() < until, "the gate never knows");
        node.claim(loser.clone()).await.unwrap();
        tokio::time::sleep(PAUSE).await;
    }
}

/// A sale skips order numbers after Redis has lost everything. The gate that reads the orders made since its last read
/// finds them under their numbers, so it refuses no user with a grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_knows_buyers_after_skipped_numbers() {
    let mut world = World::new(patient).await;
    let target = world
        .open(open_now(sale(7)).limit(3).hold_ms(3_600_000))
        .await;
    // More units than orders.
    let claims = (0..2).map(|n| target.units(&name(n), 3)).collect();
    world.harness.ask_all(claims).await;
    world.settle_all().await;
    world.flush();
    world.all_halted().await;
    world.run();
    world.all_open().await;
    let node = world.harness.nodes[0].clone();
    let third = world.harness.ask_all(vec![target.one(&name(2))]).await;
    let third = grant_of(&third[0].1).unwrap();
    assert!(third.number > 3, "no number was skipped: {third:?}");
    learn_sold_out(&node, target).await;
    let cancel = Command::Cancel {
        order: third.order_id(),
        part: None,
    };
    world.harness.submit(0, cancel).await.unwrap();
    let last = target.keyed(&name(3), 1, "key");
    let answers = world.harness.ask_all(vec![last.clone()]).await;
    assert!(grant_of(&answers[0].1).is_some());
    learn_sold_out(&node, target).await;
    assert_eq!(node.try_gate_outcome(&last), None);
    world.harness.replay(&answers).await;
}
