//! A stop under load, followed by the loss of all of Redis: every acknowledged order is in the ledger.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::common::sale;
use crate::operation::{
    crowd::{buy, state},
    program::{Program, until},
};

const STOCK: u32 = 1_000_000;
const BUYERS: usize = 16;

type Orders = Arc<Mutex<BTreeMap<String, String>>>;

/// Users who buy until the node stops answering, and the orders of their answers.
fn buyers(addr: SocketAddr, sale: &str, orders: &Orders) -> Vec<JoinHandle<()>> {
    let buyer = |place: usize| {
        let (sale, orders) = (sale.to_owned(), Arc::clone(orders));
        tokio::spawn(async move {
            for number in 0.. {
                let user = format!("buyer-{place}-{number}");
                let bought = tokio::spawn({
                    let (sale, user) = (sale.clone(), user.clone());
                    // A refused connection panics.
                    async move { buy(addr, &sale, &user).await }
                });
                match bought.await {
                    Ok(reply) if reply.status == 201 => {
                        orders.lock().insert(user, reply.text("id"));
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        })
    };
    (0..BUYERS).map(buyer).collect()
}

struct Case<'a> {
    folder: &'a Path,
    redis: Standalone,
    url: &'a str,
}

impl<'a> Case<'a> {
    fn new(folder: &'a Path, url: &'a str) -> Self {
        let redis = Standalone::start(&Options::new());
        Self { folder, redis, url }
    }

    fn start(&self, command: &str, keys: &[(&str, &str)]) -> Program {
        let redis = self.redis.url();
        let usual = [("redis.urls", redis.as_str()), ("ledger.url", self.url)];
        Program::on_redis(
            self.folder,
            command,
            "stopping",
            &[&usual[..], keys].concat(),
        )
    }

    /// Starts users who buy from a node, and waits until some have orders.
    async fn busy(&self, node: &Program) -> (String, Orders, Vec<JoinHandle<()>>) {
        node.ready(200).await;
        let mut body = sale(STOCK);
        body["hold_seconds"] = json!(3_600);
        let id = node.post("/v1/sales", Some(body)).await.text("id");
        let orders = Orders::default();
        let buying = buyers(node.addr().await, &id, &orders);
        let some = async || (orders.lock().len() >= 300).then_some(());
        until("no user buys", some).await;
        (id, orders, buying)
    }

    /// Empties Redis. A new node has all orders, and gives no other user their ids.
    async fn lose_redis(&self, sale: &str, orders: &Orders) {
        self.redis.primary().call(&["FLUSHALL"]).unwrap();
        let node = self.start("serve", &[]);
        node.ready(200).await;
        let addr = node.addr().await;
        let orders = orders.lock().clone();
        let mut lost = Vec::new();
        let mut ids: BTreeSet<_> = orders.values().cloned().collect();
        for n in 0..orders.len() {
            let reply = buy(addr, sale, &format!("new-{n}")).await;
            assert_eq!(reply.status, 201, "{reply:?}");
            assert!(
                ids.insert(reply.text("id")),
                "the id belongs to another order: {reply:?}"
            );
        }
        for (user, order) in &orders {
            if state(addr, user, order).await != "held" {
                lost.push(order);
            }
        }
        assert!(
            lost.is_empty(),
            "{} of {}: {lost:?}",
            lost.len(),
            orders.len()
        );
    }
}

async fn all(buying: Vec<JoinHandle<()>>) {
    for buying in buying {
        buying.await.unwrap();
    }
}

/// The node settles in one case. In the other, no worker runs.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_node_has_answered_is_in_the_ledger() {
    for inside in ["true", "false"] {
        let folder = tempfile::tempdir().unwrap();
        let database = Postgres::start(&postgres::Options::new().without_fsync());
        let url = database.create_database();
        qiang::migrate(&url).await.unwrap();
        let case = Case::new(folder.path(), &url);
        let mut node = case.start("serve", &[("settlement.in_process", inside)]);
        let (sale, orders, buying) = case.busy(&node).await;
        node.signal("-TERM");
        assert_eq!(node.ended().await, Some(0));
        all(buying).await;
        case.lose_redis(&sale, &orders).await;
    }
}

/// An unreachable ledger delays a stop for the configured time, and the log counts entries that only Redis has.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_bounded_and_says_what_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let case = Case::new(folder.path(), &url);
    let keys = [
        ("settlement.in_process", "false"),
        ("settlement.stop_timeout_ms", "1000"),
    ];
    let mut node = case.start("serve", &keys);
    let (_, _, buying) = case.busy(&node).await;
    database.kill();
    let told = std::time::Instant::now();
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    assert!(told.elapsed() >= Duration::from_secs(1));
    all(buying).await;
    let left = node.line(
        "stopped before the ledger has all entries; \
         keep Redis until another process has settled them",
    );
    let left = left.await;
    assert_eq!(left["level"], "ERROR");
    assert!(left["known"].as_u64() > Some(0), "{left}");
    assert!(
        left["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{left}"
    );
}
