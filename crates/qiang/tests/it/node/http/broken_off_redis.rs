//! Interrupted changes with a key on Redis: a client that disconnects during the wait for the ledger, a late ledger,
//! and a Redis that does not answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang::{
    Backend, NodeStarter, RunningNode,
    config::{EngineKind, NodeConfig, Secret},
};
use qiang_core::{
    event::PartitionId,
    ports::{EventLog, Ledger},
};
use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::node::http::common::{Reply, SECRET, call, in_an_hour, sale, sign};

const PARTITION: PartitionId = PartitionId(0);
const PATIENCE: Duration = Duration::from_secs(90);

struct Node {
    running: RunningNode,
    log: Arc<dyn EventLog>,
    ledger: Arc<dyn Ledger>,
    server: Standalone,
    token: String,
    sale: String,
    _folder: tempfile::TempDir,
}

impl Node {
    async fn start(adjust: impl FnOnce(&mut NodeConfig)) -> Self {
        let server = tokio::task::block_in_place(|| Standalone::start(&Options::new()));
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.auth.hs256_secret = Secret::new(SECRET);
        config.limits.disable_rate_limits();
        config.engine.kind = EngineKind::Redis;
        config.engine.data = folder.path().join("ledger.db");
        config.redis.urls = server.url();
        config.redis.partitions = 1;
        adjust(&mut config);
        let backend = Backend::open(&config).await.unwrap();
        let (log, ledger) = (backend.ports.log.clone(), backend.ports.ledger.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        let token = sign(&json!({ "sub": "olga", "scope": "admin", "exp": in_an_hour() }));
        let mut node = Self {
            running,
            log,
            ledger,
            server,
            token,
            sale: String::new(),
            _folder: folder,
        };
        let made = node.ask("POST", "/v1/sales", None, Some(sale(5))).await;
        assert_eq!(made.status, 201, "{made:?}");
        node.sale = made.text("id");
        node
    }

    async fn ask(&self, method: &str, path: &str, key: Option<&str>, body: Option<Value>) -> Reply {
        let header = key.map(|key| ("Idempotency-Key", key));
        let headers: Vec<_> = header.into_iter().collect();
        let (addr, token) = (self.running.addr(), Some(&*self.token));
        call(addr, method, path, token, &headers, body).await
    }

    async fn set_price(&self, key: &str, amount: i64) -> Reply {
        let path = format!("/v1/sales/{}", self.sale);
        self.ask("PATCH", &path, Some(key), Some(price(amount)))
            .await
    }

    async fn seen(&self, pointer: &str) -> Value {
        let path = format!("/v1/sales/{}", self.sale);
        let read = self.ask("GET", &path, None, None).await;
        assert_eq!(read.status, 200, "{read:?}");
        read.json().pointer(pointer).cloned().unwrap_or_default()
    }

    /// Waits until the log has more than this number of entries.
    async fn logged_more_than(&self, entries: u64) {
        let until = Instant::now() + PATIENCE;
        while self.log.head(PARTITION).await.unwrap() <= entries {
            assert!(Instant::now() < until, "the change is not carried out");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Settles the log until the request is answered.
    async fn while_settling<T>(&self, asked: impl Future<Output = T>) -> T {
        let mut asked = std::pin::pin!(asked);
        let until = Instant::now() + PATIENCE;
        loop {
            self.settle().await;
            let answered = tokio::time::timeout(Duration::from_millis(20), &mut asked).await;
            if let Ok(answer) = answered {
                return answer;
            }
            assert!(Instant::now() < until, "the request is not answered");
        }
    }

    async fn settle(&self) {
        let entries = self.log.read(PARTITION, 0, 1_000).await.unwrap();
        let settled = self.ledger.settle(PARTITION, &entries).await;
        settled.unwrap();
    }

    async fn stop(self) {
        self.running.shutdown().await.unwrap();
    }
}

fn price(amount: i64) -> Value {
    json!({ "unit_price": { "amount": amount, "currency": "CNY" } })
}

/// A change of terms waits for the ledger. The client may disconnect before the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_redis_goes_on_when_its_client_disconnects() {
    let node = Node::start(|config| config.settlement.in_process = false).await;
    let head = node.log.head(PARTITION).await.unwrap();
    let mut client = TcpStream::connect(node.running.addr()).await.unwrap();
    let body = price(10).to_string();
    let request = format!(
        "PATCH /v1/sales/{} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        node.sale,
        node.token,
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    node.logged_more_than(head).await;
    drop(client);
    let again = node.while_settling(node.set_price("k", 10)).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    let other = node.while_settling(node.set_price("l", 100)).await;
    assert_eq!(other.status, 200, "{other:?}");
    let late = node.set_price("k", 10).await;
    assert_eq!((late.status, late.json()), (200, again.json()));
    assert_eq!(node.seen("/unit_price/amount").await, json!(100));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_waits_for_a_ledger_that_is_late() {
    let node = Node::start(|config| config.settlement.in_process = false).await;
    let first = node.set_price("k", 10).await;
    first.assert_problem(503, "uncertain");
    // The change is made, and could still be lost.
    node.set_price("k", 10)
        .await
        .assert_problem(503, "uncertain");
    node.settle().await;
    let again = node.set_price("k", 10).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.json()["unit_price"]["amount"], json!(10));
    let other = node.while_settling(node.set_price("l", 100)).await;
    assert_eq!(other.status, 200, "{other:?}");
    let late = node.set_price("k", 10).await;
    assert_eq!((late.status, late.json()), (200, again.json()));
    assert_eq!(node.seen("/unit_price/amount").await, json!(100));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_after_a_redis_that_did_not_answer_is_answered() {
    let node = Node::start(|config| config.redis.claim_timeout_ms = 500).await;
    let path = format!("/v1/campaigns/{}/pause", node.sale);
    let pause = || node.ask("POST", &path, Some("k"), None);
    tokio::task::block_in_place(|| node.server.primary().pause());
    assert_eq!(pause().await.status, 503);
    tokio::task::block_in_place(|| node.server.primary().resume());
    let until = Instant::now() + PATIENCE;
    let paused = loop {
        let again = pause().await;
        if again.status == 200 {
            break again;
        }
        // The retry is never refused for good.
        assert_eq!(again.status, 503, "{again:?}");
        assert!(Instant::now() < until, "{again:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(node.seen("/state/phase").await, json!("paused"));
    let path = format!("/v1/campaigns/{}/resume", node.sale);
    let resumed = node.ask("POST", &path, Some("r"), None).await;
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let late = pause().await;
    assert_eq!((late.status, late.json()), (200, paused.json()));
    assert_eq!(node.seen("/state/phase").await, json!("live"));
    node.stop().await;
}

/// A report with another amount under the same reference is counted, before and after settlement of the first payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_money_of_an_unsettled_payment_is_counted() {
    let node = Node::start(|config| config.settlement.in_process = false).await;
    let path = format!("/v1/sales/{}/orders", node.sale);
    let buyer = sign(&json!({ "sub": "ann", "scope": "claim", "exp": in_an_hour() }));
    let addr = node.running.addr();
    let placed = call(addr, "POST", &path, Some(&buyer), &[], None).await;
    let order = placed.text("id");
    let report = async |amount: i64| {
        let path = format!("/v1/orders/{order}/payment");
        let money = json!({ "amount": amount, "currency": "CNY" });
        let body = json!({ "reference": "p-1", "amount": money });
        let reply = node.ask("POST", &path, None, Some(body)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    let counted = async || {
        let metrics = call(node.running.addr(), "GET", "/metrics", None, &[], None).await;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let lines = text
            .lines()
            .filter(|line| line.contains("amount=\"differs\""));
        let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        lines.map(number).sum::<u64>()
    };
    // The first amount is not the price, so a refund is due. It is the reference for later reports.
    for amount in [1, 1] {
        report(amount).await;
    }
    assert_eq!(counted().await, 0);
    report(2).await;
    assert_eq!(counted().await, 1);
    assert_eq!(node.ledger.settled(PARTITION).await, Ok(0));
}
