//! Metrics of the transports, on a node with real servers and faults.

use std::{
    path::PathBuf,
    sync::OnceLock,
    time::{Duration, Instant},
};

use lapin::{Connection, ConnectionProperties, options::QueueDeleteOptions};
use qiang::{
    Backend, NodeStarter, RunningNode,
    config::{EngineKind, NodeConfig, Secret, TransportName},
};
use qiang_testkit::servers::{
    rabbitmq::RabbitMq,
    redis::{Options, Standalone},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::node::http::common::{SECRET, call, in_an_hour, sale, sign};

/// Maximum wait. No step takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const PARTITIONS: u16 = 2;

fn redis() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&Options::new()))
}

/// A service that settles into a file.
struct World {
    running: RunningNode,
    token: String,
    folder: tempfile::TempDir,
    prefix: &'static str,
    sale: String,
    users: u32,
}

impl World {
    async fn start(
        prefix: &'static str,
        transport: TransportName,
        rabbitmq: Option<&RabbitMq>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.auth.hs256_secret = Secret::new(SECRET);
        config.engine.kind = EngineKind::Redis;
        config.engine.data = folder.path().join("ledger.db");
        config.redis.urls = redis().url();
        config.redis.prefix = prefix.to_owned();
        config.redis.partitions = PARTITIONS;
        config.redis.shard_supply_min = 2;
        config.settlement.transport = transport;
        config.settlement.lease_ms = 500;
        if let Some(rabbitmq) = rabbitmq {
            config.settlement.rabbitmq_url = Secret::new(rabbitmq.url());
        }
        let backend = Backend::open(&config).await.unwrap();
        let exp = backend.ports.clock.now().as_millis() / 1_000 + 3_600;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        let token = sign(&json!({ "sub": "olga", "scope": "admin", "exp": exp }));
        let addr = running.addr();
        let mut body = sale(10_000);
        body["hold_seconds"] = json!(3_600);
        let made = call(addr, "POST", "/v1/sales", Some(&token), &[], Some(body));
        let made = made.await;
        assert_eq!(made.status, 201, "{made:?}");
        Self {
            sale: made.text("id"),
            running,
            token,
            folder,
            prefix,
            users: 0,
        }
    }

    /// Grants one unit each to this number of new users.
    async fn grants(&mut self, count: u32) {
        let until = self.users + count;
        let exp = in_an_hour();
        while self.users < until {
            self.users += 1;
            let user = format!("u{}", self.users);
            let token = sign(&json!({ "sub": user, "scope": "claim", "exp": exp }));
            let path = format!("/v1/sales/{}/orders", self.sale);
            let reply = call(
                self.running.addr(),
                "POST",
                &path,
                Some(&token),
                &[],
                Some(json!({})),
            );
            let reply = reply.await;
            assert_eq!(reply.status, 201, "{reply:?}");
        }
    }

    /// The values of one metric, by partition.
    async fn metric(&self, name: &str) -> Vec<u64> {
        let addr = self.running.addr();
        let text = call(addr, "GET", "/metrics", Some(&self.token), &[], None).await;
        let text = String::from_utf8(text.body.to_vec()).unwrap();
        let of = |partition: u16| {
            let name = format!("qiang_settlement_{name}{{partition=\"{partition}\"");
            let line = text.lines().find(|line| line.starts_with(&name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        (0..PARTITIONS).map(of).collect()
    }

    /// Waits until a metric is good for every partition.
    async fn every(&self, name: &str, good: impl Fn(u64) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let values = self.metric(name).await;
            if values.iter().all(|value| good(*value)) {
                return;
            }
            assert!(Instant::now() < until, "{name} is {values:?}");
            tokio::time::sleep(POLL).await;
        }
    }

    async fn all_is_settled(&self) {
        self.every("partition_lag_entries", |lag| lag == 0).await;
    }

    fn key(&self, partition: u16, rest: &str) -> String {
        format!("{}:{{p{partition:02}}}:{rest}", self.prefix)
    }

    /// Sends a command to Redis for every partition. `@x` stands for the key `x`.
    fn tell(&self, words: &[&str]) {
        for partition in 0..PARTITIONS {
            let word = |word: &&str| match word.strip_prefix('@') {
                Some(rest) => self.key(partition, rest),
                None => (*word).to_owned(),
            };
            let words: Vec<String> = words.iter().map(word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let reply = redis().primary().call(&words);
            reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }

    /// Lets another worker own all partitions, until [`World::stranger_dies`].
    async fn stranger_comes(&self) {
        self.tell(&["SET", "@lease", "stranger", "PX", "600000"]);
        self.every("owned", |owned| owned == 0).await;
    }

    fn stranger_dies(&self) {
        self.tell(&["DEL", "@lease"]);
    }

    /// Locks the ledger against writes until the result is dropped.
    fn hold_ledger(&self) -> rusqlite::Connection {
        let path: PathBuf = self.folder.path().join("ledger.db");
        let holder = rusqlite::Connection::open(path).unwrap();
        holder.busy_timeout(PATIENCE).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        holder
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_seen() {
    let mut world = World::start("s", TransportName::Stream, None).await;
    world.every("owned", |owned| owned == 1).await;
    world.grants(20).await;
    world.all_is_settled().await;
    for name in [
        "recovered",
        "refilled_entries",
        "reconnections",
        "unreadable",
    ] {
        let name = format!("transport_{name}_total");
        assert_eq!(world.metric(&name).await, [0, 0], "{name}");
    }

    world.stranger_comes().await;
    world.every("leases_lost_total", |n| n > 0).await;
    world.grants(20).await;
    world.every("partition_lag_entries", |lag| lag > 1).await;
    let read = ["XREADGROUP", "GROUP", "settlement", "stranger", "COUNT"];
    world.tell(&[&read[..], &["1", "STREAMS", "@log", ">"]].concat());
    // With the ledger locked no further records are read, so the queue stays visible.
    let holder = world.hold_ledger();
    world.stranger_dies();
    world.every("transport_queued", |queued| queued > 0).await;
    drop(holder);
    world.every("transport_recovered_total", |n| n > 0).await;
    world.every("owned", |owned| owned == 1).await;
    world.all_is_settled().await;
    world.every("transport_queued", |queued| queued == 0).await;

    let holder = world.hold_ledger();
    world.grants(20).await;
    world.every("transport_unacknowledged", |n| n > 0).await;
    world.every("transport_waiting_entries", |n| n > 0).await;
    drop(holder);
    world.all_is_settled().await;
    world.every("transport_unacknowledged", |n| n == 0).await;

    world.tell(&["XGROUP", "DESTROY", "@log", "settlement"]);
    world.every("transport_remade_total", |n| n > 0).await;
    redis()
        .primary()
        .call(&["CLIENT", "KILL", "TYPE", "normal"])
        .unwrap();
    world
        .every("transport_reconnections_total", |n| n > 0)
        .await;
    world
        .every("transport_failing", |failing| failing == 0)
        .await;
    world.running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_seen() {
    let mut world = World::start("l", TransportName::List, None).await;
    world.every("owned", |owned| owned == 1).await;
    world.stranger_comes().await;
    world.grants(20).await;
    world.tell(&["RPUSH", "@queue", "rubbish"]);
    world.tell(&["LMOVE", "@queue", "@doing", "LEFT", "RIGHT"]);
    // With the ledger locked no further records are read, so the queue stays visible.
    let holder = world.hold_ledger();
    world.stranger_dies();
    world.every("transport_queued", |queued| queued > 0).await;
    drop(holder);
    world.every("transport_recovered_total", |n| n > 0).await;
    world.every("transport_unreadable_total", |n| n == 1).await;
    world.all_is_settled().await;
    assert_eq!(
        world.metric("transport_refilled_entries_total").await,
        [0, 0]
    );

    world.stranger_comes().await;
    world.tell(&["HDEL", "@partition", "list"]);
    world.grants(20).await;
    world.stranger_dies();
    world
        .every("transport_refilled_entries_total", |n| n > 0)
        .await;
    world.every("transport_remade_total", |n| n > 0).await;
    world.all_is_settled().await;
    world.running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_seen() {
    let rabbitmq = tokio::task::spawn_blocking(RabbitMq::start).await.unwrap();
    let mut world = World::start("q", TransportName::RabbitMq, Some(&rabbitmq)).await;
    world.grants(20).await;
    world.every("owned", |owned| owned == 1).await;
    world.all_is_settled().await;
    assert_eq!(
        world.metric("transport_refilled_entries_total").await,
        [0, 0]
    );

    let holder = world.hold_ledger();
    world.grants(20).await;
    world.every("transport_unacknowledged", |n| n > 0).await;
    let properties = ConnectionProperties::default();
    let connection = Connection::connect(&rabbitmq.url(), properties)
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    for partition in 0..PARTITIONS {
        let queue = format!("q.p{partition:02}");
        let deleting = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        deleting.await.unwrap();
    }
    // RabbitMQ returns these messages, because no queue accepts them. The relay restarts at the ledger's position.
    world.grants(20).await;
    world
        .every("transport_republished_entries_total", |n| n > 0)
        .await;
    drop(holder);
    world.every("transport_remade_total", |n| n > 0).await;
    world.all_is_settled().await;

    for partition in 0..PARTITIONS {
        rabbitmq.wait_until_kept(&format!("q.p{partition:02}"));
    }
    rabbitmq.kill();
    world.grants(20).await;
    world
        .every("transport_failing", |failing| failing == 1)
        .await;
    world.all_is_settled().await;
    world
        .every("transport_refilled_entries_total", |n| n > 0)
        .await;
    let rabbitmq = tokio::task::spawn_blocking(move || {
        rabbitmq.start_again();
        rabbitmq
    });
    let rabbitmq = rabbitmq.await.unwrap();
    world
        .every("transport_failing", |failing| failing == 0)
        .await;
    world
        .every("transport_reconnections_total", |n| n > 0)
        .await;
    world.running.shutdown().await.unwrap();
    drop(rabbitmq);
}
