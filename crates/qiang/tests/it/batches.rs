//! Many red packets in one request, against kill -9. Each packet exists whole or not at all, and a repeated request
//! makes the rest.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use crate::common::{Reply, call, in_an_hour, node, output, packet, sign};
use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};

const PACKETS: usize = 20;
const SHARES: u32 = 50;
const TOTAL: i64 = 1_000;
/// Number of kills. Each kill follows the request by some milliseconds more than the one before.
const KILLS: u64 = 12;
const KILL_EVERY_MS: u64 = 3;
const ANSWERED_MAX: Duration = Duration::from_secs(30);

async fn ask(addr: SocketAddr, user: &str, what: &str, body: Option<Value>) -> Reply {
    let (method, path) = what.split_once(' ').unwrap();
    let token = sign(&json!({ "sub": user, "scope": "send admin", "exp": in_an_hour() }));
    call(addr, method, path, Some(&token), &[], body).await
}

/// Repeats a request until the service has started.
async fn answered(addr: SocketAddr, user: &str, what: &str, body: Option<Value>) -> Value {
    let until = Instant::now() + ANSWERED_MAX;
    loop {
        let reply = ask(addr, user, what, body.clone()).await;
        match reply.status {
            200 | 201 => return reply.json(),
            503 if Instant::now() < until => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => panic!("{what}: {reply:?}"),
        }
    }
}

async fn fund(addr: SocketAddr, user: &str) {
    let money = crate::common::deposit(TOTAL * PACKETS as i64);
    let path = format!("POST /v1/accounts/{user}/deposits");
    answered(addr, user, &path, Some(money)).await;
}

fn batch() -> Value {
    let packets = (0..PACKETS).map(
        |n| json!({ "idempotency_key": format!("k-{n}"), "red_packet": packet(TOTAL, SHARES) }),
    );
    json!({ "red_packets": packets.collect::<Vec<_>>() })
}

/// Sends the batch. The service may end during the request.
fn send(addr: SocketAddr, user: &str) -> JoinHandle<Reply> {
    let user = user.to_owned();
    tokio::spawn(async move { ask(addr, &user, "POST /v1/red-packets/batch", Some(batch())).await })
}

/// Repeats the batch: all packets exist once each and can be claimed. Returns how many existed before.
async fn complete(addr: SocketAddr, user: &str, first: Option<Value>) -> usize {
    let again = answered(addr, user, "POST /v1/red-packets/batch", Some(batch())).await;
    let results = again["data"].as_array().unwrap();
    assert_eq!(results.len(), PACKETS);
    for (place, result) in results.iter().enumerate() {
        let state = &result["red_packet"]["state"];
        assert_eq!(
            (&state["phase"], &state["remaining"]),
            (&json!("live"), &json!(SHARES)),
            "{result}"
        );
        if let Some(first) = &first {
            let before = &first["data"][place]["red_packet"]["id"];
            assert_eq!(*before, result["red_packet"]["id"]);
        }
    }
    let account = answered(addr, user, &format!("GET /v1/accounts/{user}"), None).await;
    assert_eq!(account["balances"][0]["available"]["amount"], json!(0));
    results
        .iter()
        .filter(|it| it["result"] == "replayed")
        .count()
}

fn audit(database: &Path) {
    let path = database.to_str().unwrap();
    let audited = output(Path::new("."), &["audit", "--db", path], &[]);
    let said = String::from_utf8_lossy(&audited.stdout);
    assert!(audited.status.success(), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_has_made_a_batch_or_nothing_of_it() {
    let service = node(Vec::new());
    let addr = service.addr();
    for kill in 0..KILLS {
        let user = format!("user-{kill}");
        fund(addr, &user).await;
        let sent = send(addr, &user);
        tokio::time::sleep(Duration::from_millis(kill * KILL_EVERY_MS)).await;
        block_in_place(|| service.kill());
        let first = sent.await.ok().filter(|reply| reply.status == 200);
        block_in_place(|| service.start_again());
        let listed = answered(addr, &user, "GET /v1/red-packets?limit=100", None).await;
        let listed = listed["data"].as_array().unwrap().len();
        let path = format!("GET /v1/accounts/{user}");
        let account = answered(addr, &user, &path, None).await;
        let left = account["balances"][0]["available"]["amount"]
            .as_i64()
            .unwrap();
        assert_eq!(left, TOTAL * (PACKETS - listed) as i64);
        assert!([0, PACKETS].contains(&listed), "{listed} packets are there");
        let replayed = complete(addr, &user, first.map(|reply| reply.json())).await;
        assert_eq!(replayed, listed);
    }
    block_in_place(|| service.stop());
    audit(&service.resources().folder().join("qiang.db"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_has_and_redis_does_not_is_opened_after_a_kill() {
    let redis = block_in_place(|| Standalone::start(&Options::new()));
    let service = node(vec![
        ("QIANG__ENGINE__KIND", "redis".to_owned()),
        ("QIANG__REDIS__URLS", redis.url()),
        ("QIANG__REDIS__PARTITIONS", "2".to_owned()),
    ]);
    let addr = service.addr();
    fund(addr, "sam").await;
    let database = service.resources().folder().join("qiang.db");
    let drafts = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = rusqlite::Connection::open_with_flags(&database, flags).unwrap();
        let sql = "SELECT count(*) FROM campaigns WHERE phase = 'draft'";
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    redis.primary().pause();
    let sent = send(addr, "sam");
    let until = Instant::now() + ANSWERED_MAX;
    while drafts() == 0 {
        assert!(Instant::now() < until, "the ledger has no packet");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(drafts(), PACKETS as i64, "drafts are not stored together");
    block_in_place(|| service.kill());
    assert!(sent.await.is_err(), "the request was answered");
    redis.primary().resume();
    block_in_place(|| service.start_again());
    let replayed = complete(addr, "sam", None).await;
    assert_eq!(replayed, PACKETS);
}

const SALES: usize = 20;

fn sales() -> Value {
    let sales = (0..SALES).map(|n| {
        let sale = json!({ "title": "lamps", "stock": 5,
            "unit_price": { "amount": 9_900, "currency": "CNY" } });
        json!({ "idempotency_key": format!("s-{n}"), "sale": sale })
    });
    json!({ "sales": sales.collect::<Vec<_>>(), "mode": "all" })
}

/// A seller's request.
async fn sell(addr: SocketAddr, seller: &str, what: &str, body: Option<Value>) -> Reply {
    let (method, path) = what.split_once(' ').unwrap();
    let token = sign(&json!({ "sub": seller, "scope": "campaigns:write", "exp": in_an_hour() }));
    call(addr, method, path, Some(&token), &[], body).await
}

/// Repeats a seller's request until the service has started.
async fn sold(addr: SocketAddr, seller: &str, what: &str, body: Option<Value>) -> Value {
    let until = Instant::now() + ANSWERED_MAX;
    loop {
        let reply = sell(addr, seller, what, body.clone()).await;
        match reply.status {
            200 => return reply.json(),
            503 if Instant::now() < until => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => panic!("{what}: {reply:?}"),
        }
    }
}

/// Repeats a whole batch of sales: all exist once each and can be sold. Returns how many existed before.
async fn complete_sales(addr: SocketAddr, seller: &str) -> usize {
    let again = sold(addr, seller, "POST /v1/sales/batch", Some(sales())).await;
    let results = again["data"].as_array().unwrap();
    assert_eq!(results.len(), SALES);
    for result in results {
        let state = &result["sale"]["state"];
        let found = (&state["phase"], &state["remaining"]);
        assert_eq!(found, (&json!("live"), &json!(5)), "{result}");
    }
    let before = results.iter().filter(|it| it["result"] == "replayed");
    before.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_has_created_a_whole_batch_of_sales_or_none() {
    let redis = block_in_place(|| Standalone::start(&Options::new()));
    let on_redis = vec![
        ("QIANG__ENGINE__KIND", "redis".to_owned()),
        ("QIANG__REDIS__URLS", redis.url()),
        ("QIANG__REDIS__PARTITIONS", "2".to_owned()),
    ];
    for settings in [Vec::new(), on_redis] {
        let service = node(settings);
        let addr = service.addr();
        for kill in 0..KILLS {
            let seller = format!("seller-{kill}");
            let sent = tokio::spawn({
                let seller = seller.clone();
                async move { sell(addr, &seller, "POST /v1/sales/batch", Some(sales())).await }
            });
            tokio::time::sleep(Duration::from_millis(kill * KILL_EVERY_MS)).await;
            block_in_place(|| service.kill());
            drop(sent.await); // the service may have ended before its answer
            block_in_place(|| service.start_again());
            let listed = sold(addr, &seller, "GET /v1/sales?limit=100", None).await;
            let listed = listed["data"].as_array().unwrap().len();
            assert!([0, SALES].contains(&listed), "{listed} sales exist");
            assert_eq!(complete_sales(addr, &seller).await, listed);
        }
        block_in_place(|| service.stop());
    }
}
