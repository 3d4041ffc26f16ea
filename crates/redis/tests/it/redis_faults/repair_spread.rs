//! Repair of spread campaigns. A lost shard is repaired with the data of the other one, and every unit exists exactly
//! once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::{AckLevel, Phase},
    hash_tags::cluster_tags,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EventLog as _, Ledger, RepairEngine,
        RepairStore as _,
    },
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::redis::{
        Cluster, Options as ServerOptions, Reply, Server, Standalone, slot_of_partition,
    },
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};

use crate::redis_faults::harness::{
    Harness, blocking, detach_replicas, grant_of, name, open_now, options, wait_for, winners,
};

/// Units of a campaign, and the half on one shard.
const FEW: u32 = 20;
const HALF: usize = FEW as usize / 2;
const SHARE_MINOR: i64 = 100;
/// Grace for answers of nodes, long enough for slow nodes. All nodes are alive.
const GRACE: Duration = Duration::from_secs(5);

/// Nodes that repair, with a ledger.
struct World {
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    _repairs: Vec<Host>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(options: RedisOptions) -> Self {
        let harness = Harness::new(options).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        let total = qiang_core::money::Money::new(SHARE_MINOR * i64::from(FEW), currency());
        let id = uuid::Uuid::from_u128(1);
        ledger.deposit(id, &user(OWNER), total).await.unwrap();
        Self {
            _repairs: Vec::new(),
            harness,
            ledger,
            _folder: folder,
        }
    }

    fn repair(&mut self) {
        for node in &self.harness.nodes {
            let host = Host::new("monitor");
            let ledger: Arc<dyn Ledger> = self.ledger.clone();
            let node: Arc<dyn RepairEngine> = Arc::new(node.clone());
            repair::start_all(&host, &node, &ledger, RepairMode::Automatic);
            self._repairs.push(host);
        }
    }

    /// Opens a campaign that is also in the ledger.
    async fn open(&mut self, builder: Builder) -> Target {
        let setup = builder.setup(self.harness.setups.len() as u64 + 1);
        self.ledger.create(&setup).await.unwrap();
        self.harness.open(builder).await
    }

    /// Users of the first and of the second shard of a campaign. The shards number their orders in turn.
    async fn by_part(&mut self) -> [Vec<String>; 2] {
        let probe = self.open(open_now(sale(8 * FEW))).await;
        let claims = (0..4 * FEW as usize).map(|n| probe.one(&name(n)));
        let answers = self.harness.ask_all(claims.collect()).await;
        let mut users = [Vec::new(), Vec::new()];
        for (claim, claimed) in answers {
            let number = grant_of(&claimed).unwrap().number;
            users[(number as usize - 1) % 2].push(claim.user.as_str().to_owned());
        }
        users
    }

    /// Waits until this server has recorded the partition's repair and all nodes grant.
    async fn repaired(&self, server: &Server, tag: &str) {
        let key = format!("{}:{{{tag}}}:repairs", self.harness.options.prefix);
        let open = |node: &RedisEngine| {
            let mut all = node.partitions().into_iter();
            all.all(|partition| node.state(partition) == PartitionHealth::Open)
        };
        wait_for("the repair", || {
            let repairs = blocking(|| server.call(&["LLEN", &key]));
            repairs.is_ok_and(|reply| reply.integer() > Some(0))
                && self.harness.nodes.iter().all(open)
        })
        .await;
        println!(
            "{tag}: {:?}",
            blocking(|| server.call(&["LRANGE", &key, "0", "-1"]))
        );
    }

    async fn settle(&self) {
        let node = &self.harness.nodes[1];
        for partition in node.partitions() {
            loop {
                match settle_once(node, &*self.ledger, partition, 4_096).await {
                    Ok(step) if step.settled == step.head => break,
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        }
    }

    /// All users claim, and as many are granted as there are units. Then the campaign is closed and completely settled.
    async fn sell_out(&self, target: Target, users: &[Vec<String>; 2], withholds: bool) {
        let tally = self.harness.nodes[0]
            .tally(target.id)
            .await
            .unwrap()
            .unwrap();
        let few = u64::from(FEW);
        let withheld = tally.withheld;
        assert!(tally.conserves() && tally.supply == few, "{tally:?}");
        assert!(withholds || withheld == 0, "{tally:?}");
        let all = users.iter().flat_map(|users| &users[..FEW as usize]);
        let answers = self
            .harness
            .ask_all(all.map(|user| target.one(user)).collect())
            .await;
        assert_eq!(winners(&answers), (few - withheld) as usize);
        let tally = self.harness.nodes[0]
            .tally(target.id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (tally.supply, tally.withheld, tally.remaining),
            (few, withheld, 0),
            "{tally:?}"
        );
        self.harness.replay(&answers).await;
        let mut numbers = BTreeSet::new();
        for ((campaign, number), _) in self.harness.grants() {
            assert!(campaign != target.id || numbers.insert(number));
        }
        self.settle().await;
        for partition in self.harness.nodes[0].partitions() {
            let node = &self.harness.nodes[0];
            let found = node.differences(partition, target.id, &*self.ledger).await;
            assert_eq!(found.unwrap(), [], "{partition:?}");
        }
        let (campaign, action) = (target.id, CampaignAction::Close);
        let closed = self
            .harness
            .submit(0, Command::Act { campaign, action })
            .await;
        assert!(closed.is_ok(), "{closed:?}");
        self.settle().await;
        let record = self.ledger.campaign(campaign).await.unwrap().unwrap();
        assert_eq!(record.phase, Phase::Closed);
        assert_eq!(
            (record.granted, record.returned),
            (few - withheld, withheld)
        );
        let balances = self.ledger.balances(&user(OWNER)).await.unwrap();
        let is_packet = balances[0].available.minor != SHARE_MINOR * i64::from(FEW);
        assert!(!is_packet || balances[0].available.minor == record.refunded_minor);
    }
}

/// Whether all nodes have offered all their answers of the loss, as far as the loss is known.
fn has_offers(server: &Server, prefix: &str, tag: &str) -> bool {
    let texts = |words: &[&str]| -> Vec<String> {
        let Reply::Array(items) = server.call(words).unwrap() else {
            return Vec::new();
        };
        let texts = items.iter().filter_map(Reply::text);
        texts.map(str::to_owned).collect()
    };
    let key = |rest: &str| format!("{prefix}:{{{tag}}}:{rest}");
    let loss = texts(&["HMGET", &key("partition"), "lost_from", "lost_to"]).join("-");
    let answers = texts(&["HVALS", &key("answers")]);
    let is_whole =
        |text: &&String| text.starts_with(&format!("{loss} ")) && text.split(' ').count() == 3;
    answers.iter().filter(is_whole).count() == 2
}

fn packet() -> Builder {
    let split = SplitRule::DoubleAverage { min: 1 };
    open_now(red_packet(SHARE_MINOR * i64::from(FEW), FEW, split))
}

fn builders() -> [Builder; 2] {
    [packet(), open_now(sale(FEW))].map(|builder| builder.ack(AckLevel::Memory))
}

/// Data that the primary of the second shard loses.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    /// The transfer that sent units away.
    Out,
    /// The transfer that received units, and a grant of them.
    In,
    /// The opening of the campaign.
    Part,
}

/// The primary of a campaign's second shard dies, and its replica lacks the last entries. The primary of the first
/// shard lives.
async fn second_part_loses(lost: Lost, builder: Builder) {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let mut world = World::new(RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        shard_supply_min: 2,
        shards_max: 2,
        term_grace: GRACE,
        ..options(String::new())
    })
    .await;
    world.repair();
    let users = world.by_part().await;
    let primary = blocking(|| cluster.primary_of_slot(slot_of_partition(3, 4)));
    let until_kept = || {
        let kept = || blocking(|| primary.is_acknowledged_by(1));
        wait_for("the replica", kept)
    };
    until_kept().await;
    if lost == Lost::Part {
        detach_replicas(primary);
    }
    // The second campaign is on p02 and p03.
    let target = world.open(builder).await;
    let claims = |part: usize, count: usize| -> Vec<_> {
        let users = users[part][..count].iter();
        users.map(|user| target.one(user)).collect()
    };
    let (dry, count) = match lost {
        Lost::Out => (0, HALF),
        Lost::In => (1, HALF),
        Lost::Part => (1, 1),
    };
    let answers = world.harness.ask_all(claims(dry, count)).await;
    assert_eq!(winners(&answers), count);
    if lost != Lost::Part {
        until_kept().await;
        detach_replicas(primary);
        // The shard has no units left, so they are pulled from the other one.
        let one_more = target.one(&users[dry][count]);
        let claimed = world
            .harness
            .record
            .ask(&world.harness.nodes[0], &one_more)
            .await;
        assert!(grant_of(&claimed.unwrap()).is_some());
    }
    let next = blocking(|| {
        primary.kill();
        let next = cluster.wait_for_failover(slot_of_partition(3, 4), primary);
        primary.start_again();
        cluster.wait_until_whole();
        next
    });
    world.repaired(next, &cluster_tags(4)[3]).await;
    world.harness.replay(&answers).await;
    world.sell_out(target, &users, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_whose_leaving_is_lost_are_there_once() {
    for builder in builders() {
        second_part_loses(Lost::Out, builder).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_whose_arrival_is_lost_are_there_again() {
    for builder in builders() {
        second_part_loses(Lost::In, builder).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_new_campaign_is_made_again() {
    for builder in builders() {
        second_part_loses(Lost::Part, builder).await;
    }
}

/// Both shards are on one server and lose both sides of a transfer, or everything. After a total loss, no node knows
/// which other nodes existed. So units that another node may have answered are withheld.
async fn both_parts_lose(is_empty: bool, builder: Builder) {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut world = World::new(RedisOptions {
        urls: vec![servers.url(), servers.replica(0).url()],
        shard_supply_min: 2,
        shards_max: 2,
        term_grace: GRACE,
        ..options(String::new())
    })
    .await;
    world.repair();
    let users = world.by_part().await;
    let target = world.open(builder).await;
    let claims = users[0][..HALF].iter().map(|user| target.one(user));
    let mut answers = world.harness.ask_all(claims.collect()).await;
    blocking(|| servers.wait_for_replicas());
    detach_replicas(servers.primary());
    let one_more = target.one(&users[0][HALF]);
    let claimed = world
        .harness
        .record
        .ask(&world.harness.nodes[0], &one_more)
        .await;
    answers.push((one_more, claimed.unwrap()));
    assert_eq!(winners(&answers), HALF + 1);
    let server = blocking(|| match is_empty {
        true => {
            servers.start_again_empty();
            servers.primary()
        }
        false => {
            servers.kill();
            let replica = servers.replica(0);
            replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
            replica
        }
    });
    for tag in ["p00", "p01"] {
        world.repaired(server, tag).await;
    }
    world.harness.replay(&answers).await;
    world.sell_out(target, &users, is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_transfer_are_lost() {
    for builder in builders() {
        both_parts_lose(false, builder).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_parts_of_a_new_campaign_are_lost() {
    for builder in builders() {
        both_parts_lose(true, builder).await;
    }
}

/// Redis is emptied twice. No user is granted numbers that the first repair withheld.
async fn is_emptied_twice(builder: Builder) {
    let servers = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut world = World::new(RedisOptions {
        urls: vec![servers.url()],
        shard_supply_min: 2,
        shards_max: 2,
        term_grace: GRACE,
        ..options(String::new())
    })
    .await;
    world.repair();
    let users = world.by_part().await;
    let target = world.open(builder).await;
    // The first shard grants units that came from the second one.
    let claims = users[0][..HALF + 2].iter().map(|user| target.one(user));
    let answers = world.harness.ask_all(claims.collect()).await;
    assert_eq!(winners(&answers), HALF + 2);
    let mut withheld = Vec::new();
    for _ in 0..2 {
        blocking(|| servers.start_again_empty());
        for tag in ["p00", "p01"] {
            world.repaired(servers.primary(), tag).await;
        }
        world.settle().await;
        let mut numbers = Vec::new();
        for partition in world.harness.nodes[0].partitions() {
            let records = world.ledger.withheld(partition).await.unwrap();
            let own = records.iter().filter(|it| it.campaign == target.id);
            numbers.extend(own.flat_map(|it| it.numbers.clone()));
        }
        withheld.push(numbers);
    }
    println!("withheld numbers: {withheld:?}");
    let is_kept = |range| withheld[1].contains(range);
    assert!(withheld[0].iter().all(is_kept), "{withheld:?}");
    world.harness.replay(&answers).await;
    world.sell_out(target, &users, true).await;
    let grants = world.harness.grants().into_keys();
    let mut granted = grants.filter(|(campaign, _)| *campaign == target.id);
    assert!(granted.all(|(_, number)| withheld[1].iter().all(|range| !range.contains(number))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withheld_numbers_are_granted_to_no_user_after_a_second_loss() {
    for builder in builders() {
        is_emptied_twice(builder).await;
    }
}

/// The server dies during a repair of a partition, and its successor has only a part of the repair. The repair starts
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_in_the_middle_of_a_repair() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(2)));
    let urls = servers.replicas().iter().map(Server::url);
    let mut world = World::new(RedisOptions {
        urls: urls.chain([servers.url()]).collect(),
        shard_supply_min: 2,
        shards_max: 2,
        term_grace: GRACE,
        ..options(String::new())
    })
    .await;
    let users = world.by_part().await;
    let target = world.open(open_now(sale(FEW)).ack(AckLevel::Memory)).await;
    blocking(|| servers.wait_for_replicas());
    detach_replicas(servers.primary());
    let claims = users[0][..HALF + 1].iter().map(|user| target.one(user));
    let answers = world.harness.ask_all(claims.collect()).await;
    assert_eq!(winners(&answers), HALF + 1);
    let (first, second) = (servers.replica(0), servers.replica(1));
    blocking(|| {
        servers.kill();
        first.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
        let url = first.url();
        let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
        second.call(&["REPLICAOF", "127.0.0.1", port]).unwrap();
    });
    let node = world.harness.nodes[0].clone();
    let is_halted = |node: &RedisEngine| {
        node.partitions()
            .into_iter()
            .all(|partition| matches!(node.state(partition), PartitionHealth::Halted { .. }))
    };
    wait_for("the loss", || world.harness.nodes.iter().all(is_halted)).await;
    let follows = || blocking(|| second.is_synced_replica() && first.is_acknowledged_by(1));
    wait_for("the second replica", follows).await;
    // An attempt that does not wait for the nodes' answers withholds the units of unknown entries.
    for tag in ["p00", "p01"] {
        let all = || blocking(|| has_offers(first, &world.harness.options.prefix, tag));
        wait_for("the nodes' offers", all).await;
    }
    // The repair is stopped at later and later steps, until it has written data. The last server has no replica.
    let key = format!("{}:{{p00}}:partition", world.harness.options.prefix);
    for millis in 1..40 {
        let attempt = node.repair(node.partitions()[0], &*world.ledger, true);
        let done = tokio::time::timeout(Duration::from_millis(millis), attempt).await;
        assert!(done.is_err() || done.is_ok_and(|done| done.is_ok()));
        if !is_halted(&node) {
            break;
        }
        blocking(|| {
            // Simulates the expiry of the dead repairer's lease.
            for tag in ["p00", "p01"] {
                let key = key.replace("p00", tag);
                first.call(&["HDEL", &key, "repairer"]).unwrap();
            }
        });
        if millis == 10 {
            detach_replicas(first);
        }
    }
    blocking(|| {
        first.kill();
        second.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
    });
    world.repair();
    for tag in ["p00", "p01"] {
        world.repaired(second, tag).await;
    }
    world.harness.replay(&answers).await;
    world.sell_out(target, &users, false).await;
}
