//! Redis and ledger that do not belong together. A node on another Redis than the ledger's grants nothing, and its
//! entries are not settled. A Redis that came up empty is bound to the ledger again.

use std::time::Duration;

use qiang::{
    Backend, SystemClock,
    config::{EngineKind, NodeConfig},
    maintenance::{Maintenance, OldLog},
};
use qiang_api::config::Secret;
use qiang_core::{
    book::{Command, Reply},
    event::PartitionId,
    ports::EngineBinding,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::{
        mariadb::{self, MariaDb},
        postgres::{self, Postgres},
        redis::{Options, Standalone},
    },
};
use tokio::time::{Instant, sleep};

const STOCK: u32 = 100;
const PARTITION: PartitionId = PartitionId(0);
/// A takeover takes three seconds, and a repair takes `term_grace_ms`. The rest is for a busy machine.
const HEALED_MAX: Duration = Duration::from_secs(60);

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

fn config(redis: &Standalone, prefix: &str) -> NodeConfig {
    let mut config = NodeConfig::defaults().unwrap();
    config.engine.kind = EngineKind::Redis;
    config.redis.urls = redis.url();
    config.redis.prefix = prefix.to_owned();
    config.redis.partitions = 1;
    config
}

fn on_database(redis: &Standalone, prefix: &str, url: &str) -> NodeConfig {
    let mut config = config(redis, prefix);
    config.ledger.url = Secret::new(url);
    config
}

fn on_file(redis: &Standalone, folder: &tempfile::TempDir, name: &str) -> NodeConfig {
    let mut config = config(redis, "qiang");
    config.engine.data = folder.path().join(name);
    config
}

async fn open_sale(node: &Backend, stock: u32) -> Target {
    let setup = sale(stock)
        .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
        .admission(None)
        .setup(1);
    node.ports.ledger.create(&setup).await.unwrap();
    let target = Target::of(&setup);
    let opened = node.ports.engine.submit(Command::Open(Box::new(setup)));
    assert_eq!(opened.await, Ok(Reply::Opened));
    target
}

/// Claims one unit for each user number. Returns the numbers of the acknowledged orders.
async fn buy(node: &Backend, target: Target, users: std::ops::Range<u32>) -> Vec<u32> {
    let mut orders = Vec::new();
    for n in users {
        let claimed = node.ports.engine.claim(target.one(&format!("u{n}"))).await;
        orders.extend(
            claimed
                .ok()
                .and_then(|it| it.outcome.grant().map(|grant| grant.number)),
        );
    }
    orders
}

fn refused(opened: anyhow::Result<Backend>) -> String {
    match opened {
        Ok(_) => panic!("a node on another Redis has started"),
        Err(error) => format!("{error:#}"),
    }
}

async fn check_two_prefixes(url: String) {
    qiang::migrate(&url).await.unwrap();
    let redis = blocking(|| Standalone::start(&Options::new()));
    let node = Backend::open(&on_database(&redis, "one", &url))
        .await
        .unwrap();
    let target = open_sale(&node, STOCK).await;
    let mut sold = buy(&node, target, 0..60).await.len();
    let other = Backend::open(&on_database(&redis, "two", &url)).await;
    if let Ok(other) = &other {
        other.settle(Duration::from_secs(5)).await.ok();
        sleep(Duration::from_secs(5)).await;
        sold += buy(other, target, 100..250).await.len();
    }
    sold += buy(&node, target, 60..200).await.len();
    assert!(sold <= STOCK as usize, "{sold} orders of {STOCK} units");
    assert_eq!(sold, STOCK as usize);
    let line = refused(other);
    for part in [
        "belongs to the Redis at one@",
        "for two@",
        "qiang partition adopt",
    ] {
        assert!(line.contains(part), "{line}");
    }
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_another_prefix_is_refused_and_oversells_nothing_postgres() {
    let server = blocking(|| Postgres::start(&postgres::Options::new()));
    check_two_prefixes(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_another_prefix_is_refused_and_oversells_nothing_mariadb() {
    let server = blocking(|| MariaDb::start(&mariadb::Options::new()));
    check_two_prefixes(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_ledger_on_a_prefix_is_refused() {
    let redis = blocking(|| Standalone::start(&Options::new()));
    let folder = tempfile::tempdir().unwrap();
    let first = Backend::open(&on_file(&redis, &folder, "a.db"))
        .await
        .unwrap();
    let target = open_sale(&first, STOCK).await;
    assert_eq!(buy(&first, target, 0..10).await.len(), 10);
    let line = refused(Backend::open(&on_file(&redis, &folder, "b.db")).await);
    assert!(line.contains("belongs to installation"), "{line}");
    assert_eq!(buy(&first, target, 10..20).await.len(), 10);
    first.close().await.unwrap();
    // It is also refused after the first node has stopped. It starts under a prefix of its own.
    refused(Backend::open(&on_file(&redis, &folder, "b.db")).await);
    let mut elsewhere = on_file(&redis, &folder, "b.db");
    elsewhere.redis.prefix = "own".to_owned();
    let second = Backend::open(&elsewhere).await.unwrap();
    until_open(&second).await;
    second.close().await.unwrap();
}

async fn until_open(node: &Backend) {
    let until = Instant::now() + HEALED_MAX;
    while let Some(reason) = stopped(node) {
        assert!(Instant::now() < until, "{reason}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn stopped(node: &Backend) -> Option<String> {
    let states = node.ports.gauges.partitions();
    states.into_iter().find_map(|(_, reason)| reason)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_lost_everything_is_the_ledgers_again() {
    let server = blocking(|| Postgres::start(&postgres::Options::new()));
    let url = server.url();
    qiang::migrate(&url).await.unwrap();
    let redis = blocking(|| Standalone::start(&Options::new()));
    let config = on_database(&redis, "qiang", &url);
    let (one, two) = (
        Backend::open(&config).await.unwrap(),
        Backend::open(&config).await.unwrap(),
    );
    let target = open_sale(&one, STOCK).await;
    let before = buy(&one, target, 0..30).await;
    one.settle(Duration::from_secs(10)).await.unwrap();
    blocking(|| redis.primary().call(&["FLUSHALL"]).unwrap());
    let until = Instant::now() + HEALED_MAX;
    while buy(&two, target, 0..30).await != before {
        assert!(Instant::now() < until, "{:?}", stopped(&two));
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(buy(&one, target, 0..30).await, before, "a replay");
    for node in [&one, &two] {
        node.close().await.unwrap();
    }

    // The same after a loss while no node runs.
    blocking(|| redis.start_again_empty());
    let node = Backend::open(&config).await.unwrap();
    let until = Instant::now() + HEALED_MAX;
    while buy(&node, target, 0..30).await != before {
        assert!(Instant::now() < until, "{:?}", stopped(&node));
        sleep(Duration::from_millis(100)).await;
    }
    let more = buy(&node, target, 100..300).await;
    assert!(before.len() + more.len() <= STOCK as usize, "{more:?}");
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_the_ledger_has_left_stops_and_settles_nothing() {
    let server = blocking(|| Postgres::start(&postgres::Options::new()));
    let url = server.url();
    qiang::migrate(&url).await.unwrap();
    let redis = blocking(|| Standalone::start(&Options::new()));
    let mut config = on_database(&redis, "qiang", &url);
    config.settlement.in_process = false;
    let node = Backend::open(&config).await.unwrap();
    let target = open_sale(&node, STOCK).await;
    assert_eq!(buy(&node, target, 0..10).await.len(), 10);
    let ledger = &node.ports.ledger;
    let bound = ledger.binding().await.unwrap().unwrap();
    let elsewhere = EngineBinding {
        engine: "another".to_owned(),
        location: "qiang@elsewhere:6379".to_owned(),
        ..bound.clone()
    };
    let entries = node.ports.log.read(PARTITION, 0, 5).await.unwrap();
    let after = ledger.bind(&bound.engine, &elsewhere).await.unwrap();
    assert_eq!(after.engine, "another");
    // The ledger checks the binding in the transaction, although this process read an older one.
    ledger.settle_for(&bound.engine);
    let settled = ledger.settle(PARTITION, &entries).await.unwrap_err();
    assert!(
        settled.to_string().contains("belongs to another engine"),
        "{settled}"
    );
    let until = Instant::now() + Duration::from_secs(3);
    while stopped(&node).is_none() {
        assert!(Instant::now() < until, "the node still grants");
        sleep(Duration::from_millis(20)).await;
    }
    let reason = stopped(&node).unwrap();
    assert!(
        reason.contains("belongs to the Redis at qiang@elsewhere:6379"),
        "{reason}"
    );
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_moves_to_another_redis_by_command() {
    let server = blocking(|| Postgres::start(&postgres::Options::new()));
    let url = server.url();
    qiang::migrate(&url).await.unwrap();
    let redis = blocking(|| Standalone::start(&Options::new()));
    let [old, new] = ["old", "new"].map(|prefix| {
        let mut config = on_database(&redis, prefix, &url);
        config.redis.partitions = 2;
        config
    });
    let by = crate::node::corrections::operator();
    let adopt_with = async |config: &NodeConfig, old: OldLog| {
        Maintenance::adopt(config, std::sync::Arc::new(SystemClock), by, &old).await
    };
    let adopt = async |config: &NodeConfig| adopt_with(config, OldLog::default()).await;
    let node = Backend::open(&old).await.unwrap();
    let target = open_sale(&node, STOCK).await;
    let before = buy(&node, target, 0..40).await;
    let in_use = adopt(&new).await.unwrap_err().to_string();
    assert!(in_use.contains("stop all nodes"), "{in_use}");
    node.settle(Duration::from_secs(10)).await.unwrap();
    node.close().await.unwrap();

    let moved = adopt(&new).await.unwrap().unwrap();
    assert!(
        moved.0.starts_with("old@") && moved.1.starts_with("new@"),
        "{moved:?}"
    );
    assert_eq!(adopt(&new).await.unwrap(), None, "again");
    refused(Backend::open(&old).await);
    let node = Backend::open(&new).await.unwrap();
    let until = Instant::now() + HEALED_MAX;
    while buy(&node, target, 0..40).await != before {
        assert!(Instant::now() < until, "{:?}", stopped(&node));
        sleep(Duration::from_millis(100)).await;
    }
    let more = buy(&node, target, 100..300).await;
    assert!(before.len() + more.len() <= STOCK as usize, "{more:?}");
    assert!(
        more.iter().all(|number| !before.contains(number)),
        "{more:?}"
    );
    node.settle(Duration::from_secs(10)).await.unwrap();
    node.close().await.unwrap();

    // The log has entries that the ledger lacks.
    let words = ["HINCRBY", "new:{p00}:partition", "seq", "5"];
    blocking(|| redis.primary().call(&words)).unwrap();
    let line = adopt(&old).await.unwrap_err().to_string();
    assert!(line.contains("lacks 5 entries"), "{line}");
    // Without its state, the end of a partition's log is unknown.
    let words = ["HINCRBY", "new:{p00}:partition", "seq", "-5"];
    blocking(|| redis.primary().call(&words)).unwrap();
    let lost = blocking(|| redis.primary().call(&["DEL", "new:{p01}:partition"]));
    assert_eq!(lost.unwrap().integer(), Some(1));
    let line = adopt(&old).await.unwrap_err().to_string();
    assert!(line.contains("no state of partitions 1:"), "{line}");
    let elsewhere = OldLog {
        urls: vec!["redis://127.0.0.1:1".to_owned()],
        leave: false,
    };
    let line = adopt_with(&old, elsewhere).await.unwrap_err().to_string();
    assert!(line.contains("cannot be read"), "{line}");
    let leave = OldLog {
        leave: true,
        ..OldLog::default()
    };
    assert!(adopt_with(&old, leave).await.unwrap().is_some());
}
