//! A thousand users in a queue, and kill -9 of everything that stores or decides their queue entries: nodes, Redis and
//! the database.

mod order;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{Reply, call, in_an_hour, node, sale, sign};
use parking_lot::Mutex;
use qiang_testkit::servers::{
    ServerProcess,
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::task::block_in_place;

const USERS: u32 = 1_000;
const STOCK: u32 = 400;
const KILLS: usize = 6;
const CLIENTS: usize = 16;
const DECIDED_MAX: Duration = Duration::from_secs(60);

fn token(user: &str, scope: &str) -> String {
    sign(&json!({ "sub": user, "scope": scope, "exp": in_an_hour() }))
}

fn name(user: u32) -> String {
    format!("user-{user}")
}

/// Services, with the Redis and the database that they share, if any.
struct Served {
    nodes: Vec<ServerProcess>,
    redis: Option<Standalone>,
    ledger: Option<Postgres>,
}

/// A paused sale, and the users' numbers in its queue.
struct Crowd {
    campaign: String,
    places: BTreeMap<u64, u32>,
}

fn on_redis(redis: &Standalone) -> Vec<(&'static str, String)> {
    vec![
        ("QIANG__ENGINE__KIND", "redis".to_owned()),
        ("QIANG__REDIS__URLS", redis.url()),
        ("QIANG__REDIS__PARTITIONS", "2".to_owned()),
    ]
}

impl Served {
    fn start(redis: Option<Standalone>) -> Self {
        Self {
            nodes: vec![node(redis.as_ref().map_or_else(Vec::new, on_redis))],
            redis,
            ledger: None,
        }
    }

    /// Two nodes, with the ledger in a database.
    fn start_two() -> Self {
        let (redis, ledger) = block_in_place(|| {
            let redis = Standalone::start(&Options::new().fsync_always());
            (redis, Postgres::start(&postgres::Options::new()))
        });
        let mut migrate = Command::new(env!("CARGO_BIN_EXE_qiang"));
        migrate.args(["migrate", "--ledger", &ledger.url()]);
        assert!(block_in_place(|| migrate.status()).unwrap().success());
        let url = ("QIANG__LEDGER__URL", ledger.url());
        let keys = [&on_redis(&redis)[..], &[url]].concat();
        Self {
            nodes: vec![node(keys.clone()), node(keys)],
            redis: Some(redis),
            ledger: Some(ledger),
        }
    }

    fn kill(&self) {
        block_in_place(|| {
            self.nodes.iter().for_each(ServerProcess::kill);
            self.kill_servers();
            self.nodes.iter().for_each(ServerProcess::start_again);
        });
    }

    fn kill_servers(&self) {
        if let Some(redis) = &self.redis {
            redis.kill();
            redis.start_again();
        }
        if let Some(ledger) = &self.ledger {
            ledger.kill();
            ledger.start_again();
        }
    }

    async fn line_up(&self) -> Crowd {
        let mut body = sale(STOCK);
        body["waiting_room"] = json!(true);
        body["hold_seconds"] = json!(3_600);
        let addrs: Vec<_> = self.nodes.iter().map(|node| node.addr()).collect();
        let opened = act(addrs[0], "/v1/sales", Some(body)).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        let id = opened.text("id");
        let campaign = format!("/v1/campaigns/{id}");
        let paused = act(addrs[0], &format!("{campaign}/pause"), None).await;
        assert_eq!(paused.status, 200);
        let places = Arc::new(Mutex::new(BTreeMap::new()));
        let (orders, entered) = (format!("/v1/sales/{id}/orders"), Arc::clone(&places));
        for_all(move |user| {
            let (orders, entered) = (orders.clone(), Arc::clone(&entered));
            let addr = addrs[user as usize % addrs.len()];
            async move {
                let reply = ask(addr, "POST", &orders, user).await;
                assert_eq!(reply.status, 202, "{reply:?}");
                let place = reply.json()["place"].as_u64().unwrap();
                let before = entered.lock().insert(place, user);
                assert_eq!(before, None, "place {place} twice");
            }
        })
        .await;
        let places = std::mem::take(&mut *places.lock());
        Crowd { campaign, places }
    }

    /// Waits until only this node decides the queue.
    async fn decides(&self, node: usize) {
        let addr = self.nodes[node].addr();
        let began = Instant::now();
        while metric(addr, "qiang_queue_entries").await != Some(USERS.into()) {
            assert!(began.elapsed() < DECIDED_MAX, "another node has the queue");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Crowd {
    async fn resume(&self, addr: SocketAddr) {
        let resumed = act(addr, &format!("{}/resume", self.campaign), None).await;
        assert_eq!(resumed.status, 200);
    }

    /// Checks that every user keeps the queue entry.
    async fn keeps_its_places(&self, addr: SocketAddr) {
        let mine = format!("{}/queue-entry", self.campaign);
        for (place, user) in self.places.iter().step_by(50) {
            let reply = ask(addr, "GET", &mine, *user).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            assert_eq!(reply.json()["place"].as_u64(), Some(*place));
        }
    }

    /// Checks on this node that each user is decided once, and that the first users have the units.
    async fn is_decided_in_order(&self, addr: SocketAddr) {
        let mine = format!("{}/queue-entry", self.campaign);
        let grants = Arc::new(Mutex::new(BTreeMap::new()));
        let found = Arc::clone(&grants);
        for_all(move |user| {
            let (mine, found) = (mine.clone(), Arc::clone(&found));
            async move {
                let began = Instant::now();
                loop {
                    let reply = ask(addr, "GET", &mine, user).await;
                    match (reply.status, reply.json()["state"].as_str()) {
                        (200, Some("waiting")) => {}
                        (200, Some("granted")) => {
                            let number = reply.json()["order"]["number"].as_u64().unwrap();
                            found.lock().insert(user, number);
                            return;
                        }
                        (409, _) => return reply.assert_problem(409, "sold-out"),
                        _ => panic!("user {user}: {reply:?}"),
                    }
                    assert!(
                        began.elapsed() < DECIDED_MAX,
                        "user {user} is still waiting"
                    );
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        })
        .await;
        let grants = std::mem::take(&mut *grants.lock());
        let first = self.places.values().take(STOCK as usize);
        let first: BTreeSet<u32> = first.copied().collect();
        let granted: BTreeSet<u32> = grants.keys().copied().collect();
        assert_eq!(granted, first, "the first users do not have the units");
        let in_line = self.places.values().take(STOCK as usize);
        let numbers: Vec<u64> = in_line.map(|user| grants[user]).collect();
        let is_ascending = numbers.is_sorted_by(|before, after| before < after);
        assert!(is_ascending, "grants in the order of places: {numbers:?}");
        let state = format!("{}/state", self.campaign);
        let state = call(addr, "GET", &state, None, &[], None).await.json();
        assert_eq!(
            (&state["granted"], &state["remaining"]),
            (&json!(STOCK), &json!(0))
        );
    }
}

/// A metric of a node.
async fn metric(addr: SocketAddr, name: &str) -> Option<f64> {
    let reply = call(addr, "GET", "/metrics", None, &[], None).await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    values.next()?.trim().parse().ok()
}

/// Sends an operator's request until there is an answer.
async fn act(addr: SocketAddr, path: &str, body: Option<Value>) -> Reply {
    let operator = token("olga", "admin");
    let began = Instant::now();
    loop {
        let reply = call(addr, "POST", path, Some(&operator), &[], body.clone()).await;
        if reply.status != 503 {
            return reply;
        }
        assert!(began.elapsed() < DECIDED_MAX, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a request until there is an answer.
async fn ask(addr: SocketAddr, method: &str, path: &str, user: u32) -> Reply {
    let began = Instant::now();
    let token = token(&name(user), "claim");
    loop {
        let reply = call(addr, method, path, Some(&token), &[], None).await;
        if reply.status != 503 {
            return reply;
        }
        assert!(began.elapsed() < DECIDED_MAX, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Does the work for every user, for several users at a time.
async fn for_all<F: Future<Output = ()> + Send + 'static>(
    work: impl Fn(u32) -> F + Send + Sync + 'static,
) {
    let (next, work) = (Arc::new(AtomicU32::new(0)), Arc::new(work));
    let client = |_| {
        let (next, work) = (Arc::clone(&next), Arc::clone(&work));
        tokio::spawn(async move {
            loop {
                let user = next.fetch_add(1, Ordering::Relaxed);
                if user >= USERS {
                    return;
                }
                work(user).await;
            }
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    for client in clients {
        client.await.unwrap();
    }
}

async fn everybody_is_decided_once(served: Served) {
    let addr = served.nodes[0].addr();
    let crowd = served.line_up().await;
    served.kill();
    crowd.keeps_its_places(addr).await;
    crowd.resume(addr).await;
    for _ in 0..KILLS {
        let wait = rand::rng().random_range(0..40);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        served.kill();
    }
    crowd.is_decided_in_order(addr).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_a_node_with_its_file() {
    everybody_is_decided_once(Served::start(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_a_node_and_of_redis() {
    let redis = block_in_place(|| Standalone::start(&Options::new().fsync_always()));
    everybody_is_decided_once(Served::start(Some(redis))).await;
}

/// The node that decides the queue pauses for longer than its lease, and the other node decides. That node is killed
/// at work, with Redis and the database. The first node logs the loss of its lease, and continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_goes_on_where_one_stands_still_or_is_killed() {
    let served = Served::start_two();
    let crowd = served.line_up().await;
    let addr = |node: usize| served.nodes[node].addr();
    let decides = async |node| metric(addr(node), "qiang_queue_entries").await > Some(0.0);
    let first = usize::from(!decides(0).await);
    let second = 1 - first;
    served.decides(first).await;
    block_in_place(|| served.nodes[first].pause_all());
    served.decides(second).await;
    block_in_place(|| served.nodes[first].resume_all());
    let began = Instant::now();
    while metric(addr(first), "qiang_queue_leases_lost_total").await != Some(1.0) {
        assert!(
            began.elapsed() < DECIDED_MAX,
            "the node has not noticed the loss of its lease"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    crowd.keeps_its_places(addr(first)).await;
    crowd.resume(addr(first)).await;
    let wait = rand::rng().random_range(0..40);
    tokio::time::sleep(Duration::from_millis(wait)).await;
    block_in_place(|| {
        served.nodes[second].kill();
        served.kill_servers();
    });
    crowd.is_decided_in_order(addr(first)).await;
    block_in_place(|| served.nodes[second].start_again());
    crowd.is_decided_in_order(addr(second)).await;
}
