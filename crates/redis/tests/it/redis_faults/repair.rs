//! Automatic repair of a partition that has lost data. It grants again without a restart, users keep their answered
//! grants, and no unit is granted twice.

mod cancellations;
mod closed;
mod damage;
mod hold_extensions;
mod late;
mod late_campaigns;
mod ledger_position;
mod log_gap;
mod older_rows;
mod partition_keys;
mod queue_keys;
mod repeated;
mod returns;
mod stock;
mod suspended;
mod suspended_spread;
mod terms;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Phase,
    event::PartitionId,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EventLog as _, Ledger, NumberRange,
        RepairEngine, RepairStore as _,
    },
    reconcile::DifferenceKind,
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};

use crate::redis_faults::harness::{
    Answered, Harness, blocking, detach_replicas, name, open_now, options, wait_for,
};

const TAGS: [&str; 2] = ["p00", "p01"];
const CLAIMS: usize = 400;
const SUPPLY: u32 = 20_000;
const ENTRIES_MAX: usize = 4_096;
/// Maximum time until a partition grants again.
const REPAIRED_MAX: Duration = Duration::from_secs(20);

/// Two nodes on a primary, a replica that may replace it, and a ledger. The nodes repair.
struct World {
    servers: Standalone,
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    sale: Target,
    packet: Target,
    repairs: Vec<Host>,
    /// Tags of the partitions that have lost data.
    lost: Mutex<Vec<&'static str>>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(options(String::new())).await
    }

    /// The same with other options.
    async fn with(options: RedisOptions) -> Self {
        let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
        let urls = vec![servers.url(), servers.replica(0).url()];
        let options = RedisOptions { urls, ..options };
        let mut harness = Harness::new(options).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        let total = qiang_core::money::Money::new(100 * i64::from(SUPPLY), currency());
        let id = uuid::Uuid::from_u128(1);
        ledger.deposit(id, &user(OWNER), total).await.unwrap();
        let sale = open_now(sale(SUPPLY)).price(1).hold_ms(3_600_000);
        let packet = open_now(red_packet(
            total.minor,
            SUPPLY,
            SplitRule::DoubleAverage { min: 1 },
        ));
        for (n, builder) in (1..).zip([&sale, &packet]) {
            ledger.create(&builder.setup(n)).await.unwrap();
        }
        let world = Self {
            sale: harness.open(sale).await,
            packet: harness.open(packet).await,
            repairs: harness
                .nodes
                .iter()
                .map(|node| repairing(node, &ledger))
                .collect(),
            servers,
            harness,
            ledger,
            lost: Mutex::default(),
            _folder: folder,
        };
        blocking(|| world.servers.wait_for_replicas());
        world
    }

    /// Claims of users `from` to `upto` on both campaigns.
    async fn grant(&self, from: usize, upto: usize) -> Vec<Answered> {
        let targets = [self.sale, self.packet];
        let claims = (from..upto).flat_map(|n| targets.map(|target| target.one(&name(n))));
        self.harness.ask_all(claims.collect()).await
    }

    /// Settles everything.
    async fn settle(&self) {
        let until = Instant::now() + REPAIRED_MAX;
        for partition in self.harness.nodes[1].partitions() {
            loop {
                assert!(
                    Instant::now() < until,
                    "not all entries are settled in time"
                );
                let node = &self.harness.nodes[1];
                match settle_once(node, &*self.ledger, partition, ENTRIES_MAX).await {
                    Ok(step) if step.settled == step.head => break,
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        }
    }

    /// Kills the primary for good and promotes the replica with its older data.
    fn fail_over(&self) {
        blocking(|| {
            let (primary, replica) = (self.servers.primary(), self.servers.replica(0));
            let before = TAGS.map(|tag| self.end_of(primary, tag));
            self.servers.kill();
            replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
            let ends = TAGS.into_iter().zip(before);
            let lost = ends.filter(|(tag, before)| self.end_of(replica, tag) < *before);
            *self.lost.lock().unwrap() = lost.map(|(tag, _)| tag).collect();
        });
    }

    fn end_of(&self, server: &Server, tag: &str) -> u64 {
        let key = format!("{}:{{{tag}}}:partition", self.harness.options.prefix);
        let reply = server.call(&["HGET", &key, "seq"]).unwrap();
        reply.text().unwrap().parse().unwrap()
    }

    /// The promoted replica, or the primary.
    fn server(&self) -> &Server {
        let replica = self.servers.replica(0);
        match replica.info("replication", "role").as_deref() {
            Some("master") => replica,
            _ => self.servers.primary(),
        }
    }

    /// Waits until all lost partitions are repaired, and returns the time that this took.
    async fn repaired(&self, from: Instant) -> Duration {
        let lost = self.lost.lock().unwrap().clone();
        assert!(!lost.is_empty());
        let repaired = || {
            let is_repaired = |tag: &&str| {
                let key = format!("{}:{{{tag}}}:repairs", self.harness.options.prefix);
                let reply = self.server().call(&["LLEN", &key]);
                reply.is_ok_and(|reply| reply.integer() > Some(0))
            };
            let open = |node: &RedisEngine| {
                let mut all = node.partitions().into_iter();
                all.all(|partition| node.state(partition) == PartitionHealth::Open)
            };
            blocking(|| lost.iter().all(is_repaired)) && self.harness.nodes.iter().all(open)
        };
        wait_for("the repair", repaired).await;
        assert!(from.elapsed() < REPAIRED_MAX, "{:?}", from.elapsed());
        from.elapsed()
    }

    /// Units of a campaign withheld in the engine.
    fn withheld(&self, target: Target) -> i64 {
        let field = |tag: &str| {
            let key = format!("{}:{{{tag}}}:c:{}", self.harness.options.prefix, target.id);
            let reply = self.server().call(&["HGET", &key, "withheld"]).unwrap();
            reply.text().map_or(0, |text| text.parse::<i64>().unwrap())
        };
        blocking(|| field("p00") + field("p01"))
    }

    /// Checks that the ledger's record of repairs equals the withheld units and the unused numbers.
    async fn check_record(&self, target: Target) {
        let (mut units, mut numbers) = (0, Vec::new());
        for partition in self.harness.nodes[0].partitions() {
            let repairs = self.ledger.repairs(partition, 10).await.unwrap();
            assert!(repairs.iter().all(|repair| repair.upto.is_some()));
            for record in self.ledger.withheld(partition).await.unwrap() {
                assert!(repairs.iter().any(|repair| repair.epoch == record.epoch));
                if record.campaign != target.id {
                    continue;
                }
                if record.released_at.is_none() {
                    units += record.units as i64;
                }
                numbers.extend(record.numbers);
            }
        }
        assert_eq!(units, self.withheld(target));
        let granted = self.ledger.grants(target.id, 0, SUPPLY).await.unwrap();
        let granted: BTreeSet<u32> = granted.iter().map(|grant| grant.number).collect();
        let last = granted.last().copied().unwrap_or(0);
        assert!(granted.len() < last as usize, "no gaps");
        // Released shares of a packet are granted like others.
        let is_recorded = |number| numbers.iter().any(|range| range.contains(number));
        let mut next = 1;
        while next <= last {
            assert!(
                granted.contains(&next) || is_recorded(next),
                "{next} of {last}"
            );
            next = after_skipped(next, &numbers, &granted);
        }
    }

    /// Checks that no unit was granted twice, engine and ledger agree, and all units and money are there.
    async fn check(&self) {
        let mut users = BTreeMap::new();
        for ((campaign, number), (user, _)) in self.harness.grants() {
            let before = users.insert((campaign, user), number);
            assert_eq!(before, None, "a user has two grants");
        }
        self.settle().await;
        for target in [self.sale, self.packet] {
            let tally = self.harness.nodes[0]
                .tally(target.id)
                .await
                .unwrap()
                .unwrap();
            assert!(tally.conserves(), "{tally:?}");
            assert_eq!(tally.supply, u64::from(SUPPLY));
            assert_eq!(tally.withheld as i64, self.withheld(target));
            let record = self.ledger.campaign(target.id).await.unwrap().unwrap();
            assert_eq!(
                (record.granted, record.returned),
                (tally.granted, tally.returned)
            );
            for partition in self.harness.nodes[0].partitions() {
                let node = &self.harness.nodes[0];
                let found = node
                    .differences(partition, target.id, &*self.ledger)
                    .await
                    .unwrap();
                assert_eq!(found, [], "{partition:?}");
            }
        }
    }

    /// Closes both campaigns and checks that all units and all money are accounted for.
    async fn close(&self) {
        for target in [self.sale, self.packet] {
            let campaign = target.id;
            let action = CampaignAction::Close;
            let closed = self
                .harness
                .submit(0, Command::Act { campaign, action })
                .await;
            assert!(closed.is_ok(), "{closed:?}");
            self.settle().await;
            let record = self.ledger.campaign(campaign).await.unwrap().unwrap();
            assert_eq!(record.phase, Phase::Closed);
            assert_eq!(record.granted + record.returned, u64::from(SUPPLY));
            assert_eq!(self.withheld(target), 0);
        }
        let balances = self.ledger.balances(&user(OWNER)).await.unwrap();
        let record = self.ledger.campaign(self.packet.id).await.unwrap().unwrap();
        assert_eq!(balances[0].available.minor, record.refunded_minor);
    }
}

fn repairing(node: &RedisEngine, ledger: &Arc<SqliteLedger>) -> Host {
    let host = Host::new("monitor");
    let ledger: Arc<dyn Ledger> = ledger.clone();
    let node: Arc<dyn RepairEngine> = Arc::new(node.clone());
    repair::start_all(&host, &node, &ledger, RepairMode::Automatic);
    host
}

/// Loses this many entries of each campaign by a failover. The ledger has settled none, all earlier ones, or all
/// entries.
async fn lose(lost: usize, settle_before: bool, settle_lost: bool) {
    let world = World::new().await;
    let mut answers = world.grant(0, CLAIMS).await;
    if settle_before {
        world.settle().await;
    }
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    answers.extend(world.grant(CLAIMS, CLAIMS + lost).await);
    if settle_lost {
        world.settle().await;
    }
    let from = Instant::now();
    world.fail_over();
    let took = world.repaired(from).await;
    println!("{lost} lost, repaired in {took:?}");
    world.harness.replay(&answers).await;
    answers.extend(world.grant(CLAIMS + lost, 2 * CLAIMS + lost).await);
    world.harness.replay(&answers).await;
    assert_eq!(
        (world.withheld(world.sale), world.withheld(world.packet)),
        (0, 0)
    );
    world.check().await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_entry_is_repaired() {
    lose(1, false, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_lost_entries_are_repaired() {
    lose(500, true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_ahead_gives_back_what_redis_has_lost() {
    lose(500, false, true).await;
}

/// A node dies with the server. No other node can name its answers, so as many units are withheld until the close.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_name_is_withheld() {
    let world = World::new().await;
    world.grant(0, CLAIMS).await;
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    world.grant(CLAIMS, 2 * CLAIMS).await;
    // No node would know of entries that only the dead node has observed. So the other node must have observed more.
    for target in [world.sale, world.packet] {
        let claim = target.one("last");
        world
            .harness
            .record
            .ask(&world.harness.nodes[1], &claim)
            .await
            .unwrap();
    }
    let from = Instant::now();
    world.repairs[0].abort();
    world.harness.nodes[0].abort();
    world.fail_over();
    let mut harness = world.harness;
    harness.nodes.remove(0);
    let world = World { harness, ..world };
    world.repaired(from).await;
    for target in [world.sale, world.packet] {
        assert!(world.withheld(target) > 0, "{target:?}");
    }
    world.grant(2 * CLAIMS, 3 * CLAIMS).await;
    let late = crate::redis_faults::harness::node(&world.harness.options, &[]).await;
    let mut harness = world.harness;
    harness.nodes.push(late);
    let world = World { harness, ..world };
    world.check().await;
    let withheld = [world.sale, world.packet].map(|target| world.withheld(target));
    for target in [world.sale, world.packet] {
        world.check_record(target).await;
    }

    // Redis loses everything. Only the ledger knows the withheld units.
    let from = Instant::now();
    blocking(|| world.server().call(&["FLUSHALL"]).unwrap());
    world.repaired(from).await;
    let again = [world.sale, world.packet].map(|target| world.withheld(target));
    assert_eq!(again, withheld);
    world.grant(3 * CLAIMS, 4 * CLAIMS).await;
    world.check().await;
    for target in [world.sale, world.packet] {
        world.check_record(target).await;
    }
    let mut released = 0;
    for partition in world.harness.nodes[0].partitions() {
        released += world.harness.nodes[0]
            .release_withheld(partition, &*world.ledger)
            .await
            .unwrap();
    }
    assert!(released > 0);
    let claims = (4 * CLAIMS..5 * CLAIMS).map(|n| world.sale.one(&name(n)));
    world.harness.ask_all(claims.collect()).await;
    world.check().await;
    world.check_record(world.sale).await;
    world.close().await;
}

/// Redis restarts empty. The ledger has most entries, and nodes have the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_lost_is_made_again() {
    let world = World::new().await;
    let mut answers = world.grant(0, CLAIMS).await;
    world.settle().await;
    answers.extend(world.grant(CLAIMS, 2 * CLAIMS).await);
    let from = Instant::now();
    blocking(|| world.servers.start_again_empty());
    *world.lost.lock().unwrap() = TAGS.into();
    world.repaired(from).await;
    world.harness.replay(&answers).await;
    answers.extend(world.grant(2 * CLAIMS, 3 * CLAIMS).await);
    world.harness.replay(&answers).await;
    world.check().await;
    world.close().await;
}

/// Planted differences of every kind are found, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_are_found() {
    let world = World::new().await;
    world.grant(0, CLAIMS).await;
    world.settle().await;
    world.grant(CLAIMS, CLAIMS + 5).await;
    let home = |target: Target| {
        let place = |tag: &&str| {
            let key = format!("{}:{{{tag}}}:c:{}", world.harness.options.prefix, target.id);
            world.server().call(&["EXISTS", &key]).unwrap().integer() == Some(1)
        };
        let tag = blocking(|| ["p00", "p01"].into_iter().find(place)).unwrap();
        let partition = PartitionId(tag[1..].parse().unwrap());
        let orders = format!(
            "{}:{{{tag}}}:c:{}:orders",
            world.harness.options.prefix, target.id
        );
        (partition, orders)
    };
    let (partition, orders) = home(world.sale);
    let order = |number: &str| {
        let reply = world.server().call(&["HGET", &orders, number]).unwrap();
        reply.text().unwrap().to_owned()
    };
    blocking(|| {
        let put = |number: &str, text: &str| {
            world
                .server()
                .call(&["HSET", &orders, number, text])
                .unwrap();
        };
        put("3", &order("3").replacen("h\t", "x\t", 1));
        put("4", &order("4").replace("\t1\t1\t", "\t2\t2\t"));
        put("6", &order("6").replace("user", "other"));
        let text = order("5").replace("user", "new");
        put("9999", &text);
        world.server().call(&["HDEL", &orders, "5"]).unwrap();
    });
    let node = &world.harness.nodes[0];
    let found = node
        .differences(partition, world.sale.id, &*world.ledger)
        .await
        .unwrap();
    let of = |kind: DifferenceKind| -> Vec<u32> {
        let found = found.iter().filter(|found| found.kind == kind);
        found.map(|found| found.number).collect()
    };
    assert_eq!(of(DifferenceKind::StateDiffers), [3]);
    assert_eq!(of(DifferenceKind::AmountDiffers), [4]);
    assert_eq!(of(DifferenceKind::MissingInEngine), [5]);
    assert_eq!(of(DifferenceKind::Double), [6]);
    assert_eq!(of(DifferenceKind::MissingInLedger), [9_999]);
    assert_eq!(of(DifferenceKind::InFlight).len(), 5);
    let (partition, _) = home(world.packet);
    let found = node
        .differences(partition, world.packet.id, &*world.ledger)
        .await
        .unwrap();
    assert!(
        found
            .iter()
            .all(|found| found.kind == DifferenceKind::InFlight),
        "{found:?}"
    );
}

/// Next number to check. If this number and its neighbours are in long ranges, it is near the end of these, or near the
/// next grant in them.
fn after_skipped(number: u32, ranges: &[NumberRange], granted: &BTreeSet<u32>) -> u32 {
    let step = ranges.iter().map(|range| range.step).max().unwrap_or(1);
    let end_of = |number| {
        let range = ranges.iter().find(|range| range.contains(number))?;
        Some(range.last)
    };
    let ends: Option<Vec<u32>> = (number..number + step).map(end_of).collect();
    let end = ends.and_then(|ends| ends.into_iter().min());
    let grant = granted.range(number..).next().map(|grant| grant - 1);
    let to = end.map_or(number, |end| end.min(grant.unwrap_or(end)));
    to.max(number) + 1
}
