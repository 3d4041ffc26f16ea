//! Permissions of a node in Redis: exactly the documented ones. A node refuses a different number of partitions and
//! leaves other installations alone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{self, CampaignAction, Command},
    event::{PartitionId, Seq},
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Engine as _, EventLog as _, Transport},
    split::SplitRule,
};
use qiang_redis::{
    ConnectError, LogTransportKind, RedisEngine, RedisOptions, RedisTransport, TransportOptions,
};
use qiang_testkit::{
    campaign::{red_packet, sale},
    servers::redis::{Options as ServerOptions, Reply, Server, Standalone},
};
use qiang_worker::settlement::PartitionConsumer;

use crate::redis_faults::harness::{
    Harness, blocking, grant_of, name, node, open_now, options, patient, probe, shared, wait_for,
    winners,
};
use crate::redis_faults::maintained::maintain;

/// The page that operators copy the rules from. The list starts with the user.
const PAGE: &str = include_str!("../../../../../docs/operate/redis.md");
const STOCK: u32 = 100;
const PARTITIONS: u16 = 3;
/// Maximum time until another worker takes over a dead worker's partition.
const INHERIT_MAX: Duration = Duration::from_secs(10);

/// The rules of the page for a node's user, with this prefix and password.
fn rules(prefix: &str, password: &str) -> String {
    let mut lines = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("user qiang "));
    let rules: Vec<_> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("```"))
        .collect();
    let text = rules
        .join(" ")
        .replace('\\', " ")
        .replace("PASSWORD", password);
    assert!(text.contains("~P:*"), "{text}");
    text.replace("~P:", &format!("~{prefix}:"))
        .replace("&P:", &format!("&{prefix}:"))
}

/// Commands that the rules allow, named as in `commandstats`.
fn allowed(rules: &str) -> BTreeSet<String> {
    let words = rules
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('+'));
    words.map(str::to_owned).collect()
}

/// Every command called since the last reset of the counts.
fn commands_called(server: &Server) -> BTreeSet<String> {
    let reply = server.call(&["INFO", "commandstats"]).unwrap();
    let names = reply
        .text()
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"));
    names
        .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
        .collect()
}

/// Refused commands, except the one that the client library sends about itself.
fn refused(server: &Server) -> Vec<String> {
    let log = blocking(|| server.call(&["ACL", "LOG"]).unwrap());
    let setinfo =
        |entry: &&Reply| entry.field("object").and_then(Reply::text) == Some("client|setinfo");
    let entries = log.array().iter().filter(|entry| !setinfo(entry));
    entries.map(|entry| format!("{entry:?}")).collect()
}

/// A server with the page's user for this prefix, and the options of a node as that user. The server counts commands
/// from here on.
fn guarded(prefix: &str) -> (Standalone, RedisOptions) {
    let rules = rules(prefix, "node");
    let lines = format!("user default off\nuser admin on >admin ~* &* +@all\n{rules}");
    let server =
        blocking(|| Standalone::start(&ServerOptions::new().acl(&lines, "admin", "admin")));
    blocking(|| server.primary().call(&["CONFIG", "RESETSTAT"]).unwrap());
    let url = format!("redis://qiang:node@{}", server.addr());
    let options = RedisOptions {
        prefix: prefix.to_owned(),
        read_urls: vec![url.clone()],
        replicas: 0,
        partitions: PARTITIONS,
        shard_supply_min: STOCK,
        shards_max: 2,
        // The log keeps settled entries for a short time, because both steps need commands.
        retain: Duration::from_millis(1),
        ..options(url)
    };
    (server, options)
}

/// Runs every kind of operation of a node.
async fn live(harness: &mut Harness) {
    let split = SplitRule::DoubleAverage { min: 1 };
    // The first packet is spread and has a share for each of the first users, on any partition.
    for (shares, split) in [(STOCK, split), (STOCK / 2, SplitRule::Lazy { min: 1 })] {
        let packet = harness
            .open(open_now(red_packet(100_000, shares, split)))
            .await;
        let claims = |from: u32, to: u32| (from..to).map(|n| packet.one(&name(n as usize)));
        harness.ask_all(claims(0, shares / 2).collect()).await;
        assert!(harness.nodes[0].tally(packet.id).await.unwrap().is_some());
        let answers = harness.ask_all(claims(0, shares).collect()).await;
        assert_eq!(winners(&answers), shares as usize);
        harness.replay(&answers).await;
        harness.ask_all(claims(shares, 2 * shares).collect()).await;
    }
    // A spread sale that sells out shard by shard, with short holds.
    let spread = harness.open(open_now(sale(STOCK).hold_ms(1_000))).await;
    let answers = harness
        .ask_all((0..STOCK as usize).map(|n| spread.one(&name(n))).collect())
        .await;
    assert_eq!(winners(&answers), STOCK as usize);
    let loser = spread.one("loser");
    harness.ask_all(vec![loser.clone()]).await;
    let orders: Vec<_> = answers
        .iter()
        .filter_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .collect();
    let payment = PaymentRef::new("payment").unwrap();
    let order = orders[0];
    assert!(
        harness
            .submit(
                0,
                Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                }
            )
            .await
            .is_ok()
    );
    assert!(
        harness
            .submit(
                1,
                Command::Cancel {
                    order: orders[1],
                    part: None
                }
            )
            .await
            .is_ok()
    );
    assert!(harness.nodes[0].order(orders[0]).await.unwrap().is_some());
    let node = harness.nodes[0].clone();
    let mut granted = 0;
    for _ in 0..1_000 {
        let tally = node.tally(spread.id).await.unwrap().unwrap();
        granted = tally.granted;
        if granted == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(granted, 1, "the holds expire");
    let campaign = spread.id;
    for action in [
        CampaignAction::Pause,
        CampaignAction::Resume,
        CampaignAction::Close,
    ] {
        let reply = harness.submit(0, Command::Act { campaign, action }).await;
        assert!(matches!(reply, Ok(book::Reply::Acted(_))), "{reply:?}");
    }
    // A sale that is not spread is read from a replica, and the gate stores its sell-out.
    let whole = harness.open(open_now(sale(10))).await;
    harness
        .ask_all((0..20).map(|n| whole.one(&name(n))).collect())
        .await;
    assert!(harness.nodes[1].tally(whole.id).await.unwrap().is_some());
    harness.ask_all(vec![whole.one("loser")]).await;
    wait_for("the gate", || {
        harness
            .nodes
            .iter()
            .any(|node| node.try_gate_outcome(&whole.one("loser")).is_some())
    })
    .await;
    assert_eq!(probe(&harness.nodes[0]).await, Ok(()));
    harness.audit().await;
}

/// Takes and acknowledges everything, as workers that settle do. One worker dies with its entries, and another
/// continues.
async fn consume(
    node: &RedisEngine,
    options: &RedisOptions,
    transport_kind: LogTransportKind,
    settled: &mut HashMap<PartitionId, Seq>,
) {
    let worker = |name: &str| -> Arc<dyn Transport> {
        let lease = Duration::from_millis(100);
        let transport_options = TransportOptions {
            lease,
            ..TransportOptions::new(transport_kind, name)
        };
        Arc::new(RedisTransport::new(options.clone(), transport_options).unwrap())
    };
    let (dying, heir) = (worker("dying"), worker("heir"));
    for partition in node.partitions() {
        let consumer = |worker: &Arc<dyn Transport>| {
            PartitionConsumer::new(Arc::clone(worker), Arc::new(node.clone()), partition)
        };
        let after = settled.entry(partition).or_default();
        let wait_max = Duration::from_millis(50);
        let taken = consumer(&dying).take(*after, 100, wait_max).await;
        assert!(taken.is_ok(), "{taken:?}");
        let mut inheriting = consumer(&heir);
        let until = Instant::now() + INHERIT_MAX;
        loop {
            assert!(Instant::now() < until, "no worker takes over the partition");
            let run = inheriting.take(*after, 100, wait_max).await.unwrap();
            if let Some(last) = run.last() {
                *after = last.seq;
                inheriting.ack(*after).await.unwrap();
            } else if heir.status(partition).ours {
                break;
            }
        }
    }
    heir.release_ownership().await;
}

/// Adds items that a worker may find: entries that a dead worker did not acknowledge, and an unreadable item.
fn strange_things(server: &Server, prefix: &str, transport_kind: LogTransportKind) {
    let call = |words: &[&str]| blocking(|| server.call(words).unwrap());
    for partition in 0..PARTITIONS {
        let key = |rest: &str| format!("{prefix}:{{p{partition:02}}}:{rest}");
        match transport_kind {
            LogTransportKind::Stream => {
                let (log, others) = (key("log"), "others");
                call(&["XGROUP", "CREATE", &log, others, "0", "MKSTREAM"]);
                call(&[
                    "XREADGROUP",
                    "GROUP",
                    others,
                    "me",
                    "COUNT",
                    "1",
                    "STREAMS",
                    &log,
                    ">",
                ]);
            }
            LogTransportKind::List => {
                call(&["RPUSH", &key("queue"), "rubbish"]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_access_list_of_the_page_is_enough_and_no_more_than_that() {
    let prefix = "acl";
    let (server, options) = guarded(prefix);
    let mut harness = Harness::new(options).await;
    live(&mut harness).await;
    let mut settled = HashMap::new();
    for transport_kind in [LogTransportKind::Stream, LogTransportKind::List] {
        consume(
            &harness.nodes[0],
            &harness.options,
            transport_kind,
            &mut settled,
        )
        .await;
        let late = harness.open(open_now(sale(10))).await;
        harness
            .ask_all((0..20).map(|n| late.one(&name(n))).collect())
            .await;
        strange_things(server.primary(), prefix, transport_kind);
        consume(
            &harness.nodes[0],
            &harness.options,
            transport_kind,
            &mut settled,
        )
        .await;
    }
    let waiting = RedisOptions {
        replicas: 1,
        replica_timeout: Duration::from_millis(10),
        ..harness.options.clone()
    };
    // There is no replica, so this only tests the permission for WAIT.
    let waiting = node(&waiting, &[]).await;
    probe(&waiting).await.unwrap();
    harness.nodes[0]
        .halt(PartitionId(0), "the end of the test")
        .await
        .unwrap();

    // Operators and repairs use another server with the same user.
    let (maintained, options) = guarded("mended");
    let mut harness = Harness::new(options).await;
    maintain(&mut harness, maintained.primary()).await;

    let mut called = BTreeSet::new();
    for server in [server.primary(), maintained.primary()] {
        assert_eq!(refused(server), [] as [String; 0]);
        called.extend(blocking(|| commands_called(server)));
    }
    // Commands of the fixture, commands that need no permission, and the one that the client library sends about
    // itself.
    for own in [
        "acl|log",
        "acl",
        "config|resetstat",
        "config",
        "expire",
        "auth",
        "hello",
        "ping",
        "client|setinfo",
    ] {
        called.remove(own);
    }
    let mut allowed = allowed(&rules(prefix, "node"));
    // Redis does not count these here: one server has no cluster and no other database.
    for elsewhere in ["cluster|slots", "asking", "readonly", "select"] {
        assert!(allowed.remove(elsewhere), "{elsewhere} is not on the page");
    }
    let missing: Vec<_> = called.difference(&allowed).collect();
    let needless: Vec<_> = allowed.difference(&called).collect();
    assert!(
        missing.is_empty() && needless.is_empty(),
        "missing {missing:?}, needless {needless:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_partitions_is_refused() {
    let harness = Harness::new(options(shared().url())).await;
    for partitions in [1, 3, 8] {
        let other = RedisOptions {
            partitions,
            ..harness.options.clone()
        };
        let refused = RedisEngine::connect(other, &[]).await;
        let Err(ConnectError::Partitions { found, configured }) = refused else {
            panic!("{partitions} partitions were accepted instead of two");
        };
        assert_eq!((found, configured), (2, partitions));
    }
    assert_eq!(probe(&harness.nodes[0]).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_on_one_redis_do_not_meet() {
    let mut one = Harness::new(options(shared().url())).await;
    let mut other = Harness::new(RedisOptions {
        partitions: 5,
        ..options(shared().url())
    })
    .await;
    // The same campaign and the same users, at the same time.
    let (here, there) = (
        one.open(open_now(sale(STOCK))).await,
        other.open(open_now(sale(STOCK))).await,
    );
    assert_eq!(here.id, there.id);
    let claims = || {
        (0..2 * STOCK as usize)
            .map(|n| here.one(&name(n)))
            .collect()
    };
    let (answers, also) = tokio::join!(one.ask_all(claims()), other.ask_all(claims()));
    assert_eq!(
        (winners(&answers), winners(&also)),
        (STOCK as usize, STOCK as usize)
    );
    one.nodes[0]
        .halt(PartitionId(1), "only here")
        .await
        .unwrap();
    assert_eq!(other.nodes[1].stopped(), None);
    assert_eq!(probe(&other.nodes[0]).await, Ok(()));
    other.replay(&also).await;
    other.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_channel_decides_all_the_same() {
    let rules = rules("deaf", "node").replace("&deaf:*:agenda:news", "resetchannels");
    let lines = format!("user default off\nuser admin on >admin ~* &* +@all\n{rules}");
    let options_of = ServerOptions::new().acl(&lines, "admin", "admin");
    let server = blocking(|| Standalone::start(&options_of));
    let mut harness = Harness::new(RedisOptions {
        prefix: "deaf".to_owned(),
        ..patient(format!("redis://qiang:node@{}", server.addr()))
    })
    .await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let answers = harness
        .ask_all(
            (0..2 * STOCK as usize)
                .map(|n| target.one(&name(n)))
                .collect(),
        )
        .await;
    assert_eq!(winners(&answers), STOCK as usize);
    harness.replay(&answers).await;
    let order = answers
        .iter()
        .find_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .unwrap();
    assert!(
        harness
            .submit(0, Command::Cancel { order, part: None })
            .await
            .is_ok()
    );
    let until = Instant::now() + INHERIT_MAX;
    let next = target.one("next");
    while harness.nodes[1].try_gate_outcome(&next).is_some() {
        assert!(Instant::now() < until, "the gate does not poll");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(winners(&harness.ask_all(vec![next]).await), 1);
    assert_eq!(harness.record.errors(), 0);
    harness.audit().await;
}
