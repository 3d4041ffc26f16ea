//! Terms of leadership: a stalled replica, a failover that loses one entry, and a replaced primary that still answers.
//! No false loss is reported, no loss is missed, whichever node is first, and everything that can continue does so
//! automatically.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::Setup,
    campaign::AckLevel,
    event::PartitionId,
    money::Money,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EngineError, EventLog as _,
        RepairEngine as _, SettlementStore as _,
    },
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, sale},
    proxy::FaultProxy,
    servers::redis::{Options as ServerOptions, SentinelSet, Standalone},
};
use qiang_worker::settlement::{StepError, settle_once};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, detach_replicas, grant_of, name, node, open_now, options,
    patient, wait_for, winners,
};

const CLAIMS: usize = 300;
const SUPPLY: u32 = 50_000;
const REPLICA_TIMEOUT: Duration = Duration::from_millis(100);
/// Partition of the only campaign of a harness with two partitions.
const HOME: PartitionId = PartitionId(1);
const ENTRIES_MAX: usize = 4_096;
/// Maximum time until grants resume automatically after no loss: much less than the grace.
const REOPEN_MAX: Duration = Duration::from_secs(10);
const LONG_GRACE: Duration = Duration::from_secs(25);
/// Maximum time until a node sees a state.
const SEEN_MAX: Duration = Duration::from_secs(10);

/// A ledger with the harness' campaigns.
pub(crate) struct Books {
    pub(crate) ledger: SqliteLedger,
    _folder: tempfile::TempDir,
}

impl Books {
    pub(crate) async fn new(harness: &Harness) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(OPENS);
        let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), clock).unwrap();
        for setup in &harness.setups {
            ledger.create(setup).await.unwrap();
        }
        Self {
            ledger,
            _folder: folder,
        }
    }

    /// Adds one more campaign.
    pub(crate) async fn create(&self, setup: &Setup) {
        let minor = setup.campaign.funded_minor();
        if minor > 0 {
            let (id, owner) = (setup.campaign.id.uuid(), &setup.campaign.owner);
            let total = Money::new(minor, currency());
            self.ledger.deposit(id, owner, total).await.unwrap();
        }
        self.ledger.create(setup).await.unwrap();
    }

    /// Settles everything that is available now. Returns the number of remaining entries.
    async fn settle(&self, node: &RedisEngine) -> Result<u64, StepError> {
        let mut left = 0;
        for partition in node.partitions() {
            loop {
                let step = settle_once(node, &self.ledger, partition, ENTRIES_MAX).await?;
                if step.entries == 0 {
                    left += step.head - step.settled;
                    break;
                }
            }
        }
        Ok(left)
    }

    /// Settles everything.
    pub(crate) async fn settle_all(&self, node: &RedisEngine) {
        let until = Instant::now() + SEEN_MAX;
        while self.settle(node).await != Ok(0) {
            assert!(
                Instant::now() < until,
                "not all entries are settled in time"
            );
            tokio::time::sleep(SHORT_PAUSE).await;
        }
    }
}

async fn granted(harness: &Harness, node: &RedisEngine, target: Target, user: &str) {
    let claimed = harness.record.ask(node, &target.one(user)).await.unwrap();
    assert!(grant_of(&claimed).is_some(), "{claimed:?}");
}

fn all_open(node: &RedisEngine) -> bool {
    let mut partitions = node.partitions().into_iter();
    partitions.all(|partition| node.state(partition) == PartitionHealth::Open)
}

/// A stopped replica costs only the level `replica`. Neither load nor the start of a node treats it as a loss.
/// Settlement continues when the replica is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_replica_stops_nothing() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let mut harness = Harness::new(RedisOptions {
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        ..patient(servers.url())
    })
    .await;
    let target = harness
        .open(open_now(sale(SUPPLY)).ack(AckLevel::Memory))
        .await;
    let books = Books::new(&harness).await;
    let claims = (0..CLAIMS).map(|n| target.one(&name(n))).collect();
    assert_eq!(winners(&harness.ask_all(claims).await), CLAIMS);
    books.settle_all(&harness.nodes[0]).await;
    let settled = books.ledger.positions().await.unwrap();

    blocking(|| servers.replica(0).pause());
    // A node that starts does not know which entries a replica has.
    let late = node(&harness.options, &settled).await;
    assert_eq!(books.settle(&late).await, Ok(0));
    granted(&harness, &late, target, "late").await;
    harness.nodes[1] = late;
    let load = harness.start(move |n| Some(target.one(&name(CLAIMS + n))), SHORT_PAUSE);
    for _ in 0..10 {
        load.more(20).await;
        for node in &harness.nodes {
            let left = books.settle(node).await;
            assert!(left.as_ref().is_ok_and(|left| *left > 0), "{left:?}");
        }
    }
    let answers = load.stop().await;
    assert_eq!(winners(&answers), answers.len());
    assert_eq!(harness.record.errors(), 0);
    assert!(harness.nodes.iter().all(all_open));

    blocking(|| servers.replica(0).resume());
    for node in &harness.nodes {
        books.settle_all(node).await;
    }
    // Settled entries have left the log, so this checks only that the answers agree with each other.
    harness.grants();
}

/// Two nodes on a primary with a replica: `slow` uses proxies, `fast` does not. The replica lacks one grant that `slow`
/// has answered, and replaces the primary.
struct OneLost {
    servers: Standalone,
    proxies: [FaultProxy; 2],
    harness: Harness,
    target: Target,
    /// The last log entry that survives.
    kept: u64,
}

impl OneLost {
    async fn new() -> Self {
        let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
        let proxies = [
            FaultProxy::start(servers.addr()).await,
            FaultProxy::start(servers.replica(0).addr()).await,
        ];
        let fast = RedisOptions {
            urls: vec![servers.url(), servers.replica(0).url()],
            ..options(String::new())
        };
        let slow = RedisOptions {
            urls: proxies
                .iter()
                .map(|proxy| format!("redis://{}", proxy.addr()))
                .collect(),
            ..fast.clone()
        };
        let mut harness = Harness::new(fast).await;
        harness.nodes[1].close().await;
        harness.nodes[1] = node(&slow, &[]).await;
        let target = harness.open(open_now(sale(SUPPLY))).await;
        let claims = (0..CLAIMS).map(|n| target.one(&name(n))).collect();
        assert_eq!(winners(&harness.ask_all(claims).await), CLAIMS);
        blocking(|| servers.wait_for_replicas());
        detach_replicas(servers.primary());
        let kept = harness.nodes[0].head(HOME).await.unwrap();
        granted(&harness, &harness.nodes[1], target, "lost").await;
        Self {
            servers,
            proxies,
            harness,
            target,
            kept,
        }
    }

    fn fail_over(&self) {
        blocking(|| {
            self.servers.kill();
            let replica = self.servers.replica(0);
            replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
        });
    }

    /// Waits until both nodes know the loss of that entry, and perhaps of later ones in its place.
    async fn is_noticed(&self) {
        for node in &self.harness.nodes {
            wait_for("the loss", || {
                matches!(node.state(HOME), PartitionHealth::Halted { lost: Some(lost), .. }
                    if lost.contains(&(self.kept + 1)))
            })
            .await;
            let answer = node.claim(self.target.one("later")).await;
            let halted = matches!(&answer, Err(EngineError::Unavailable { .. }));
            assert!(halted, "{answer:?}");
        }
    }
}

/// Whichever node is first, no unit is granted before the node that observed more has reported that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_entry_is_noticed_although_another_node_comes_first() {
    let world = OneLost::new().await;
    // The delay makes the other node first, and is still well within the grace.
    let late = Duration::from_millis(100);
    world.proxies[1].delay(late, late).await;
    world.fail_over();
    let answers = world.harness.nodes[0]
        .claim(world.target.one("early"))
        .await;
    assert!(answers.is_err(), "a unit was granted twice: {answers:?}");
    world.is_noticed().await;
    world.harness.grants();
}

/// A silent node is awaited for a limited time. When it is back, its loss is still noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_a_silent_node_is_noticed_when_it_is_back() {
    let world = OneLost::new().await;
    for proxy in &world.proxies {
        proxy.refuse().await;
        proxy.cut().await;
    }
    let began = Instant::now();
    world.fail_over();
    let fast = &world.harness.nodes[0];
    for user in ["first", "second", "third"] {
        granted(&world.harness, fast, world.target, user).await;
    }
    let grace = world.harness.options.term_grace;
    assert!(began.elapsed() >= grace / 2, "{:?}", began.elapsed());
    assert!(began.elapsed() < 10 * grace, "{:?}", began.elapsed());
    for proxy in &world.proxies {
        proxy.pass().await;
    }
    world.is_noticed().await;
}

/// A repaired partition continues on all nodes without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repaired_partition_goes_on_without_a_restart() {
    let world = OneLost::new().await;
    world.fail_over();
    world.is_noticed().await;
    let key = format!("{}:{{p01}}:partition", world.harness.options.prefix);
    let primary = world.servers.replica(0);
    let epoch = blocking(|| primary.call(&["HGET", &key, "epoch"]).unwrap());
    let epoch = epoch.text().unwrap();
    let resume = |epoch: String| {
        let node = world.harness.nodes[0].clone();
        async move { node.resume(HOME, Some(&epoch), 0).await }
    };
    assert_eq!(resume("another".to_owned()).await, Ok(false));
    assert_eq!(resume(epoch.to_owned()).await, Ok(true));
    assert_eq!(resume(epoch.to_owned()).await, Ok(false));
    for (n, node) in world.harness.nodes.iter().enumerate() {
        wait_for("the end of the halt", || {
            node.state(HOME) == PartitionHealth::Open
        })
        .await;
        granted(&world.harness, node, world.target, &format!("after-{n}")).await;
    }
    // No two entries have had the same position.
    let head = world.harness.nodes[1].head(HOME).await.unwrap();
    assert_eq!(head, world.kept + 3);
}

/// A server restarts halted and has lost the end of the halt, so nodes know a later term. They see the halt and can
/// repair it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halt_in_an_earlier_term_is_seen() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    granted(&harness, &harness.nodes[0], target, "early").await;
    let key = format!("{}:{{p01}}:partition", harness.options.prefix);
    let earlier = "redis.call('HSET', KEYS[1], 'term', 0, 'halted', 'older', 'lost_from', 1, 'lost_to', 1) \
                   return redis.call('HDEL', KEYS[1], 'open')";
    blocking(|| {
        server
            .primary()
            .call(&["EVAL", earlier, "1", &key])
            .unwrap()
    });
    for node in &harness.nodes {
        let halted = || {
            matches!(
                node.state(HOME),
                PartitionHealth::Halted { lost: Some(_), .. }
            )
        };
        wait_for("the halt", halted).await;
        assert_eq!(node.has_lost(HOME).await, Ok(true));
    }
    let answers = format!("{}:{{p01}}:answers", harness.options.prefix);
    // The value in a node's own field is the loss, the attempt, and the first entry from which its answers are
    // complete.
    let complete = "local count = 0 for _, value in ipairs(redis.call('HVALS', KEYS[1])) do \
                    if string.find(value, '^%d+%-%d+ %d+ %d+$') then count = count + 1 end end return count";
    wait_for("both offers", || {
        let eval = ["EVAL", complete, "1", &answers];
        let count = blocking(|| server.primary().call(&eval).unwrap());
        count.integer() == Some(2)
    })
    .await;
}

/// A halt that an operator ends needs no restart either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halt_that_is_taken_back_is_over() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    harness.nodes[0].halt(HOME, "by hand").await.unwrap();
    for node in &harness.nodes {
        wait_for("the halt", || {
            matches!(node.state(HOME), PartitionHealth::Halted { lost: None, .. })
        })
        .await;
        assert!(node.stopped().unwrap().contains("by hand"));
        assert!(node.claim(target.one("early")).await.is_err());
    }
    let key = format!("{}:{{p01}}:partition", harness.options.prefix);
    blocking(|| server.primary().call(&["HDEL", &key, "halted"]).unwrap());
    for node in &harness.nodes {
        wait_for("the resume", || node.state(HOME) == PartitionHealth::Open).await;
        granted(&harness, node, target, "late").await;
    }
}

/// A node starts while Redis is down, and serves when Redis is up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_without_redis() {
    let server = blocking(|| Standalone::start(&ServerOptions::new().fsync_always()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    granted(&harness, &harness.nodes[0], target, "early").await;
    blocking(|| server.kill());
    let late = node(&harness.options, &[]).await;
    let unreachable =
        |partition| matches!(late.state(partition), PartitionHealth::Unreachable { .. });
    assert!(late.partitions().into_iter().all(unreachable));
    assert!(late.stopped().is_some());
    blocking(|| server.start_again());
    granted(&harness, &late, target, "late").await;
    granted(&harness, &late, target, "early").await;
    assert_eq!(late.stopped(), None);
}

/// A restart without a loss delays users only briefly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_restart_is_over_at_once() {
    let server = blocking(|| Standalone::start(&ServerOptions::new().fsync_always()));
    let mut harness = Harness::new(RedisOptions {
        term_grace: LONG_GRACE,
        ..options(server.url())
    })
    .await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    for n in 0..3 {
        granted(&harness, &harness.nodes[n % 2], target, &name(n)).await;
        blocking(|| server.start_again());
        let began = Instant::now();
        let user = format!("again-{n}");
        for node in &harness.nodes {
            granted(&harness, node, target, &user).await;
        }
        assert!(began.elapsed() < REOPEN_MAX, "{:?}", began.elapsed());
    }
}

/// The same for a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_failover_is_over_at_once() {
    let set = blocking(|| SentinelSet::start(&ServerOptions::new()));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Sentinel {
            master: set.master_name().to_owned(),
        },
        urls: set.sentinel_urls(),
        term_grace: LONG_GRACE,
        claim_timeout: LONG_GRACE,
        ..options(String::new())
    })
    .await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let claims = (0..CLAIMS).map(|n| target.one(&name(n))).collect();
    assert_eq!(winners(&harness.ask_all(claims).await), CLAIMS);
    blocking(|| {
        set.wait_until_watched();
        let old = set.kill_primary();
        set.wait_for_failover(old);
    });
    let began = Instant::now();
    for node in &harness.nodes {
        granted(&harness, node, target, "after").await;
    }
    let open = || harness.nodes.iter().all(all_open);
    wait_for("all partitions", open).await;
    assert!(began.elapsed() < REOPEN_MAX, "{:?}", began.elapsed());
    harness.audit().await;
}

/// The Sentinels have replaced a primary. They and its replicas no longer reach it, but it still answers the node
/// connected to it. The node follows the Sentinels and reports no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_left_though_it_answers() {
    let acl = "user default off\nuser admin on >admin ~* &* +@all\nuser node on >node ~* &* +@all";
    let isolating = ServerOptions::new()
        .acl(acl, "admin", "admin")
        .line("min-replicas-to-write 1")
        .line("min-replicas-max-lag 1");
    let set = blocking(|| SentinelSet::start(&isolating));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Sentinel {
            master: set.master_name().to_owned(),
        },
        urls: set.sentinel_urls(),
        username: Some("node".to_owned()),
        password: Some("node".to_owned()),
        ..options(String::new())
    })
    .await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let books = Arc::new(Books::new(&harness).await);
    let claims = (0..CLAIMS).map(|n| target.one(&name(n))).collect();
    assert_eq!(winners(&harness.ask_all(claims).await), CLAIMS);
    books.settle_all(&harness.nodes[0]).await;

    let old = blocking(|| set.primary());
    blocking(|| {
        let deaf = ["-ping", "-info", "-psync", "-sync", "-publish", "-slaveof"];
        let mut deny = vec!["ACL", "SETUSER", "admin"];
        deny.extend(deaf);
        old.call(&deny).unwrap();
        old.call(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
        set.wait_for_failover(old);
    });
    // Another node works on the new primary and settles.
    let other = node(&harness.options, &books.ledger.positions().await.unwrap()).await;
    for n in 0..20 {
        granted(&harness, &other, target, &format!("there-{n}")).await;
    }
    books.settle_all(&other).await;
    let position = other.head(HOME).await.unwrap();

    let until = Instant::now() + SEEN_MAX;
    for node in &harness.nodes {
        let mut head = 0;
        while head < position {
            // Errors are acceptable, but a rollback is not.
            let step = settle_once(node, &books.ledger, HOME, ENTRIES_MAX).await;
            let rolled_back = matches!(step, Err(StepError::RolledBack { .. }));
            assert!(!rolled_back, "{step:?}");
            head = step.map_or(0, |step| step.head);
            assert!(Instant::now() < until, "the node does not follow");
            tokio::time::sleep(SHORT_PAUSE).await;
        }
        assert_eq!(node.stopped(), None);
        granted(&harness, node, target, "here").await;
    }
    // Settled entries have left the log, so this checks only that the answers agree with each other.
    harness.grants();
}
