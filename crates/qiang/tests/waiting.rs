//! A thousand users in line, and kill -9 of everything that keeps or decides their places.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

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

use common::{Reply, SECRET, call, in_an_hour, sale, sign};
use parking_lot::Mutex;
use qiang_testkit::servers::{
    Resources, ServerProcess,
    redis::{Options, Standalone},
};
use rand::RngExt as _;
use serde_json::json;
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

/// A service, and Redis if its engine is there.
struct Served {
    server: ServerProcess,
    redis: Option<Standalone>,
}

impl Served {
    fn start(redis: Option<Standalone>) -> Self {
        let url = redis.as_ref().map(Standalone::url);
        let command = move |at: &Resources| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
            command
                .args(["serve", "--data", "qiang.db", "--listen"])
                .arg(at.addr().to_string())
                .envs(qiang_testkit::NO_LIMITS)
                .env("QIANG__AUTH__HS256_SECRET", SECRET)
                .env("QIANG__LOG__LEVEL", "off");
            if let Some(url) = &url {
                command
                    .env("QIANG__ENGINE__KIND", "redis")
                    .env("QIANG__REDIS__URLS", url)
                    .env("QIANG__REDIS__PARTITIONS", "2");
            }
            command
        };
        Self {
            server: block_in_place(|| ServerProcess::builder(command).start()),
            redis,
        }
    }

    fn kill(&self) {
        block_in_place(|| {
            self.server.kill();
            if let Some(redis) = &self.redis {
                redis.kill();
                redis.start_again();
            }
            self.server.start_again();
        });
    }

    async fn act(&self, path: &str) -> Reply {
        let operator = token("olga", "operate");
        let began = Instant::now();
        loop {
            let reply = call(self.server.addr(), "POST", path, Some(&operator), &[], None).await;
            if reply.status != 503 {
                return reply;
            }
            assert!(began.elapsed() < DECIDED_MAX, "{reply:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Asks again while there is no answer.
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

/// Does something for every user, for some of them at a time.
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
    let addr = served.server.addr();
    let operator = token("olga", "operate");
    let mut body = sale(STOCK);
    body["waiting_room"] = json!(true);
    body["hold_seconds"] = json!(3_600);
    let opened = call(addr, "POST", "/v1/sales", Some(&operator), &[], Some(body)).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let id = opened.text("id");
    let campaign = format!("/v1/campaigns/{id}");
    assert_eq!(served.act(&format!("{campaign}/pause")).await.status, 200);

    let places = Arc::new(Mutex::new(BTreeMap::new()));
    let (orders, entered) = (format!("/v1/sales/{id}/orders"), Arc::clone(&places));
    for_all(move |user| {
        let (orders, entered) = (orders.clone(), Arc::clone(&entered));
        async move {
            let reply = ask(addr, "POST", &orders, user).await;
            assert_eq!(reply.status, 202, "{reply:?}");
            let place = reply.json()["place"].as_u64().unwrap();
            assert_eq!(
                entered.lock().insert(place, user),
                None,
                "place {place} twice"
            );
        }
    })
    .await;
    served.kill();
    let places = std::mem::take(&mut *places.lock());
    let mine = format!("{campaign}/place");
    for (place, user) in places.iter().step_by(50) {
        let reply = ask(addr, "GET", &mine, *user).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["place"].as_u64(), Some(*place));
    }

    assert_eq!(served.act(&format!("{campaign}/resume")).await.status, 200);
    for _ in 0..KILLS {
        let wait = rand::rng().random_range(0..40);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        served.kill();
    }
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
                        let number = reply.json()["grant"]["number"].as_u64().unwrap();
                        found.lock().insert(user, number);
                        return;
                    }
                    (409, _) => return reply.assert_problem(409, "sold-out"),
                    _ => panic!("user {user}: {reply:?}"),
                }
                assert!(began.elapsed() < DECIDED_MAX, "user {user} waits still");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    })
    .await;
    let grants = std::mem::take(&mut *grants.lock());
    let first: BTreeSet<u32> = places.values().take(STOCK as usize).copied().collect();
    let granted: BTreeSet<u32> = grants.keys().copied().collect();
    assert_eq!(granted, first, "not those who came first");
    let numbers: BTreeSet<u64> = grants.values().copied().collect();
    assert_eq!(numbers.len(), STOCK as usize, "a grant was given twice");
    let state = call(addr, "GET", &format!("{campaign}/state"), None, &[], None).await;
    let state = state.json();
    assert_eq!(
        (&state["granted"], &state["remaining"]),
        (&json!(STOCK), &json!(0))
    );
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
