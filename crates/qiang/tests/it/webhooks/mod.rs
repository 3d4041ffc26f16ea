//! Webhooks of the program: a node delivers 10,000 grants to a receiver that fails, is slow and is killed. The node is
//! killed between a delivery and its record. Every event arrives, and events of an order arrive in order. On Redis, the
//! test makes a quarter of the grants, unless the environment has `WEBHOOK_USERS=1000`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::common::{call, in_an_hour, output, packet, sale, sign};
use crate::node::http::receiver::{Answer, Receiver};
use crate::operation::program::{Program, token};

const CAMPAIGNS: usize = 10;
const CONNECTIONS: usize = 24;
/// Timeout of a request.
const TIMEOUT_MS: u64 = 400;
/// Bound of every wait.
const PATIENCE: Duration = Duration::from_secs(240);

/// Answers to claims: campaign and number, with user and minor units.
type Granted = BTreeMap<(String, i64), (String, i64)>;

/// Folder and configuration of a node, and its number of users.
struct Place<'a> {
    users: usize,
    folder: &'a Path,
    keys: Vec<(&'static str, String)>,
    redis: Option<&'static str>,
}

impl Place<'_> {
    fn start(&self) -> Program {
        let timeout = TIMEOUT_MS.to_string();
        let usual = [
            ("webhooks.allow_private", "true"),
            ("webhooks.timeout_ms", &timeout),
            ("webhooks.retry_ms", "50"),
            ("webhooks.retry_ms_max", "500"),
        ];
        let own = self.keys.iter().map(|(key, value)| (*key, value.as_str()));
        let keys: Vec<_> = usual.into_iter().chain(own).collect();
        match self.redis {
            Some(prefix) => Program::on_redis(self.folder, "serve", prefix, &keys),
            None => Program::serve(self.folder, &keys),
        }
    }
}

/// Campaigns with a unit or share for each user.
async fn campaigns(addr: SocketAddr, users: usize) -> Vec<String> {
    let operator = token("olga");
    let post = async |path: &str, body: Value| {
        let reply = call(addr, "POST", path, Some(&operator), &[], Some(body)).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()
    };
    let mut campaigns = Vec::new();
    for n in 0..CAMPAIGNS {
        let campaign = match n % 2 {
            0 => post("/v1/sales", sale(users as u32)).await,
            _ => {
                let body = crate::common::deposit(1_000_000);
                post("/v1/accounts/olga/deposits", body).await;
                post("/v1/red-packets", packet(1_000_000, users as u32)).await
            }
        };
        let kind = if n % 2 == 0 { "sales" } else { "red-packets" };
        let end = if n % 2 == 0 { "orders" } else { "claims" };
        campaigns.push(format!(
            "/v1/{kind}/{}/{end}",
            campaign["id"].as_str().unwrap()
        ));
    }
    campaigns
}

/// Whether a user cancels an order of a sale.
fn cancels(user: usize, campaign: usize) -> bool {
    user.is_multiple_of(2) && campaign.is_multiple_of(2)
}

/// Number of orders that [`claim_all`] cancels.
fn cancelled(users: usize) -> usize {
    users.div_ceil(2) * CAMPAIGNS.div_ceil(2)
}

/// Every user claims once in every campaign, and some cancel their orders at once.
async fn claim_all(addr: SocketAddr, users: usize) -> Granted {
    let campaigns = campaigns(addr, users).await;
    let tokens = (0..users).map(|n| {
        let claims = json!({"sub": format!("u{n}"), "scope": "claim", "exp": in_an_hour()});
        format!("Bearer {}", sign(&claims))
    });
    let shared = Arc::new((campaigns, Vec::from_iter(tokens), AtomicUsize::new(0)));
    let mut claiming = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let shared = Arc::clone(&shared);
        claiming.spawn(async move {
            let (campaigns, tokens, next) = &*shared;
            let stream = TcpStream::connect(addr).await.unwrap();
            let (mut sender, wire) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(wire);
            let mut granted = Granted::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= CAMPAIGNS * users {
                    return granted;
                }
                let (user, path) = (nth / CAMPAIGNS, &campaigns[nth % CAMPAIGNS]);
                let request = Request::post(path)
                    .header("host", "test")
                    .header("authorization", &tokens[user])
                    .body(Empty::<Bytes>::new());
                sender.ready().await.unwrap();
                let response = sender.send_request(request.unwrap()).await.unwrap();
                let status = response.status();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(status, 201, "{body}");
                if cancels(user, nth % CAMPAIGNS) {
                    let id = body["id"].as_str().unwrap();
                    let request = Request::post(format!("/v1/orders/{id}/cancellation"))
                        .header("host", "test")
                        .header("authorization", &tokens[user])
                        .body(Empty::<Bytes>::new());
                    sender.ready().await.unwrap();
                    let response = sender.send_request(request.unwrap()).await.unwrap();
                    assert_eq!(response.status(), 200);
                    response.into_body().collect().await.unwrap();
                }
                let campaign = body["campaign"].as_str().unwrap().to_owned();
                let number = body["number"].as_i64().unwrap();
                let amount = body["amount"]["amount"].as_i64().unwrap();
                granted.insert((campaign, number), (format!("u{user}"), amount));
            }
        });
    }
    let all = claiming.join_all().await;
    all.into_iter().flatten().collect()
}

async fn until(what: &str, look: impl AsyncFn() -> bool) {
    let over = Instant::now() + PATIENCE;
    while !look().await {
        assert!(Instant::now() < over, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Delivers all grants to the failing receiver, and checks the received events.
async fn check(place: Place<'_>) {
    let mut receiver = Receiver::start().await;
    let mut node = place.start();
    let addr = node.addr().await;
    let types = ["order.held", "order.cancelled", "share.granted"];
    let body = json!({"url": receiver.url(), "types": types});
    let made = node.post("/v1/webhooks", Some(body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    receiver.knows(&made.text("secret"));
    // The receiver refuses some requests, and answers some late.
    let grants = CAMPAIGNS * place.users;
    let events = grants + cancelled(place.users);
    for nth in [3, grants / 20, grants / 20 + 1, grants / 6, grants - 9] {
        receiver.answer(nth, Answer::Status(500));
    }
    let slow = Duration::from_millis(TIMEOUT_MS + 200);
    for nth in [40, grants / 10, grants * 7 / 10] {
        receiver.answer(nth, Answer::Late(slow));
    }
    let claiming = tokio::spawn(claim_all(addr, place.users));
    until("a tenth arrives", async || receiver.count() >= grants / 10).await;
    // Most events are not delivered yet when all grants are made.
    receiver.answer_all(500);
    let granted = claiming.await.unwrap();
    assert_eq!(granted.len(), grants);
    receiver.answer_all(200);

    // The receiver is killed for a while.
    until("a quarter arrives", async || receiver.count() >= grants / 4).await;
    receiver.kill();
    tokio::time::sleep(Duration::from_millis(800)).await;
    receiver.start_again().await;
    // The node is killed during deliveries, so its record is older than the last delivery.
    until("half arrives", async || receiver.count() >= grants / 2).await;
    node.signal("-KILL");
    node.ended().await;
    let node = place.start();
    until("all arrive", async || receiver.count() >= events).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    drop(node);

    let told = receiver.received();
    let (requests, duplicates) = (told.requests, told.duplicates);
    println!("{requests} requests, {duplicates} duplicates");
    let (mut arrived, mut ended) = (Granted::new(), 0);
    let mut last = BTreeMap::new();
    for (id, body) in &told.events {
        let data = &body["data"];
        let text = |field: &str| data[field].as_str().unwrap().to_owned();
        let order = (text("campaign"), data["number"].as_i64().unwrap());
        let amount = data["amount"]["amount"].as_i64().unwrap();
        // All entries of an order are in one log.
        let (place, _digest) = id.rsplit_once('_').unwrap();
        let (_, seq) = place.rsplit_once('_').unwrap();
        let seq: u64 = seq.parse().unwrap();
        let before = last.insert(order.clone(), seq);
        assert!(
            before < Some(seq),
            "{id} arrived after {before:?} of {order:?}"
        );
        if body["type"] == "order.cancelled" {
            assert!(
                arrived.contains_key(&order),
                "{id} arrived before the order"
            );
            ended += 1;
            continue;
        }
        let other = arrived.insert(order, (text("user"), amount));
        assert_eq!(other, None, "{id} was delivered under another id too");
    }
    assert_eq!(ended, cancelled(place.users));
    assert!(arrived == granted, "received events differ from grants");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_arrive_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        users: 1_000,
        folder: folder.path(),
        keys: Vec::new(),
        redis: None,
    };
    check(place).await;
}

async fn check_on_redis(prefix: &'static str, ledger: String) {
    let folder = tempfile::tempdir().unwrap();
    let migrated = output(folder.path(), &["migrate", "--ledger", &ledger], &[]);
    assert!(migrated.status.success(), "{migrated:?}");
    let users = std::env::var("WEBHOOK_USERS").ok();
    let place = Place {
        users: users.map_or(250, |users| users.parse().unwrap()),
        folder: folder.path(),
        keys: vec![("ledger.url", ledger)],
        redis: Some(prefix),
    };
    check(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_arrive_from_redis_and_postgres() {
    let server = Postgres::start(&postgres::Options::new());
    check_on_redis("told-postgres", server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_arrive_from_redis_and_mariadb() {
    let server = MariaDb::start(&mariadb::Options::new());
    check_on_redis("told-mariadb", server.url()).await;
}

/// The commands make, test, redrive and delete an endpoint. Its secret is in no list and in no line of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_looked_after_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let keys = [
        ("engine.data", "qiang.db"),
        ("log.level", "trace"),
        ("webhooks.allow_private", "true"),
        ("webhooks.disable_after_ms", "1"),
        ("webhooks.retry_ms", "50"),
    ];
    let mut node = Program::serve(folder.path(), &keys);
    let addr = node.addr().await;
    let (url, bearer) = (format!("http://{addr}"), token("olga"));
    let run = |args: &[&str], expected: i32| {
        let env = [
            ("QIANG_URL", url.as_str()),
            ("QIANG_TOKEN", bearer.trim_start_matches("Bearer ")),
            ("QIANG__WEBHOOKS__ALLOW_PRIVATE", "true"),
        ];
        let ended = tokio::task::block_in_place(|| output(folder.path(), args, &env));
        let [printed, said] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
        assert_eq!(
            ended.status.code(),
            Some(expected),
            "{args:?}: {printed}{said}"
        );
        printed + &said
    };
    let json = |args: &[&str]| {
        let printed = run(&[args, &["--json"]].concat(), 0);
        serde_json::from_str::<Value>(&printed).unwrap()
    };
    assert_eq!(run(&["webhook", "list"], 0), "no entries\n");
    let endpoint = receiver.url();
    for (args, code, why) in [
        (
            ["ftp://hooks.example/", "--type", "order.held"],
            1,
            "a URL begins with https://",
        ),
        (
            [&endpoint, "--type", "order.lost"],
            2,
            "choose one of share.granted, order.held",
        ),
    ] {
        let said = run(&[&["webhook", "create"], &args[..]].concat(), code);
        assert!(said.contains(why), "{said}");
    }
    let made = json(&["webhook", "create", &endpoint, "--type", "order.held"]);
    let id = made["id"].as_str().unwrap();
    receiver.knows(made["secret"].as_str().unwrap());
    let delivered = format!("{id}: delivered\n");
    assert_eq!(run(&["webhook", "test", id], 0), delivered);
    let fresh = run(
        &["webhook", "rotate-secret", id, "--overlap-seconds", "0"],
        0,
    );
    assert_ne!(fresh.trim(), made["secret"]);
    receiver.knows(fresh.trim());
    receiver.answer_all(500);
    let failed = run(&["webhook", "test", id], 1);
    assert!(failed.contains("status 500"), "{failed}");

    let reply = node.post("/v1/sales", Some(sale(9))).await;
    let path = format!("/v1/sales/{}/orders", reply.text("id"));
    for user in ["ann", "bob"] {
        let reply = call(addr, "POST", &path, Some(&token(user)), &[], None).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    let is_disabled = async || json(&["webhook", "show", id])["status"] == "disabled";
    until("it is disabled", is_disabled).await;
    let all_settled = async || json(&["webhook", "list"])["behind"] == 2;
    until("both are settled", all_settled).await;
    let listed = run(&["webhook", "list"], 0) + &run(&["webhook", "show", id], 0);
    assert!(
        listed.contains("disabled  ") && listed.contains("status 500"),
        "{listed}"
    );
    let users = || {
        let events = receiver.received().events.into_iter();
        let orders = events.filter(|(_, it)| it["type"] == "order.held");
        orders
            .map(|(_, it)| it["data"]["user"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(users(), Vec::<Value>::new());
    receiver.answer_all(200);
    run(&["webhook", "redrive", id], 0);
    // Orders do not wait for each other.
    until("both are delivered", async || {
        let users = users();
        users.len() == 2 && users.iter().all(|user| user == "ann" || user == "bob")
    })
    .await;
    run(
        &["webhook", "redrive", id, "--since", "2026-01-01T00:00:00Z"],
        0,
    );
    until("both are delivered again", async || {
        receiver.received().duplicates == 2
    })
    .await;
    let log: String = node.lines().iter().map(Value::to_string).collect();
    for secret in [fresh.trim(), made["secret"].as_str().unwrap(), "whsec_"] {
        assert!(!log.contains(secret), "a secret is in the log");
        assert!(!listed.contains(secret), "a secret is listed");
    }
    // A kill would leave a write-ahead log, which the program below would remove.
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));

    // A command delivers the events that the node has left.
    let data = ["--data", "qiang.db"];
    let control = |args: &[&str], expected: i32| {
        run(
            &[&["reconciler", "run", "webhooks"], args, &data].concat(),
            expected,
        )
    };
    let file = rusqlite::Connection::open(folder.path().join("qiang.db")).unwrap();
    file.execute("UPDATE webhooks SET place = 0", []).unwrap();
    drop(file);
    let dry = control(&["--dry-run"], 1);
    assert!(dry.contains("webhooks: 1 found, 0 done"), "{dry}");
    let told = control(&[], 0);
    assert!(told.contains("webhooks: 1 found, 1 done"), "{told}");
    assert_eq!(receiver.received().duplicates, 4);

    let node = Program::serve(folder.path(), &keys);
    let url = format!("http://{}", node.addr().await);
    run(&["webhook", "delete", id, "--url", &url], 0);
    let gone = run(&["webhook", "delete", id, "--url", &url], 1);
    assert!(gone.contains("there is no such webhook"), "{gone}");
}

/// A sale gets another seller. The former one receives no further events of it, not even waiting ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_seller_receives_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (sam, tom) = (Receiver::start().await, Receiver::start().await);
    let keys = [
        ("engine.data", "qiang.db"),
        ("webhooks.allow_private", "true"),
        ("webhooks.allow_private_sellers", "true"),
        ("webhooks.retry_ms", "50"),
        ("webhooks.retry_ms_max", "100"),
    ];
    let mut node = Program::serve(folder.path(), &keys);
    let addr = node.addr().await;
    let mut paths = Vec::new();
    for (seller, receiver) in [("sam", &sam), ("tom", &tom)] {
        let claims = json!({"sub": seller, "scope": "campaigns:write", "exp": in_an_hour()});
        let bearer = sign(&claims);
        let body = json!({"url": receiver.url(), "types": ["order.held"]});
        let made = call(addr, "POST", "/v1/webhooks", Some(&bearer), &[], Some(body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        receiver.knows(&made.text("secret"));
        paths.push(format!("/v1/webhooks/{}", made.text("id")));
    }
    let mut body = sale(9);
    body["seller"] = json!("sam");
    let made = node.post("/v1/sales", Some(body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let orders = format!("/v1/sales/{}/orders", made.text("id"));
    let waiting = async |addr: SocketAddr| {
        let shown = call(addr, "GET", &paths[0], Some(&token("olga")), &[], None).await;
        shown.json()["waiting"].as_u64().unwrap()
    };
    sam.answer_all(500);
    let reply = call(addr, "POST", &orders, Some(&token("ann")), &[], None).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    until("the event waits", async || waiting(addr).await == 1).await;
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));

    let file = rusqlite::Connection::open(folder.path().join("qiang.db")).unwrap();
    file.execute("UPDATE campaigns SET owner = 'tom'", [])
        .unwrap();
    drop(file);
    sam.answer_all(200);
    let node = Program::serve(folder.path(), &keys);
    let addr = node.addr().await;
    let reply = call(addr, "POST", &orders, Some(&token("bob")), &[], None).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    until("the seller receives it", async || tom.count() == 1).await;
    until("no event waits", async || waiting(addr).await == 0).await;
    assert_eq!(sam.count(), 0);
    assert_eq!(tom.received().events[0].1["data"]["user"], "bob");
}
