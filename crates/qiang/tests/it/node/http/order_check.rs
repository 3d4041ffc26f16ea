//! Campaigns with order checks by the shop. A real server on this machine is the shop, in all states.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::node::http::common::{Reply, START_MS, Service, call};
use aws_lc_rs::hmac;
use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use parking_lot::Mutex;
use qiang::config::{ChallengeKind, NodeConfig, OrderCheckPolicy, Secret};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

const TRACE: (&str, &str) = (
    "traceparent",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
);
const KEY: [u8; 32] = [7; 32];
const TIMEOUT_MS: u64 = 300;
const BREAKER_FAILURES: u32 = 3;
/// Longer than any test takes.
const BREAKER_OPEN_MS: u64 = 3_600_000;

#[derive(Clone)]
enum Mood {
    /// Answers with this status and body.
    Says(u16, String),
    /// Redirects to a place that allows every order.
    Redirects,
    /// Allows the order after this time.
    Slow(Duration),
}

fn says(body: &str) -> Mood {
    Mood::Says(200, body.to_owned())
}

fn allows() -> Mood {
    says(r#"{"ok":true}"#)
}

struct Asked {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

struct Inside {
    mood: Mutex<Mood>,
    asked: Mutex<Vec<Asked>>,
    at_a_time: AtomicUsize,
    at_a_time_most: AtomicUsize,
}

struct Shop {
    addr: SocketAddr,
    inside: Arc<Inside>,
    serving: JoinHandle<()>,
}

impl Shop {
    async fn open() -> Self {
        let inside = Inside {
            mood: Mutex::new(allows()),
            asked: Mutex::default(),
            at_a_time: AtomicUsize::default(),
            at_a_time_most: AtomicUsize::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, Arc::new(inside))
    }

    fn serve(listener: TcpListener, inside: Arc<Inside>) -> Self {
        let addr = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&inside));
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(router.clone());
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { drop(serving.await) });
            }
        });
        Self {
            addr,
            inside,
            serving,
        }
    }

    /// Closes its listener and all connections.
    async fn shut(&mut self) {
        self.serving.abort();
        drop((&mut self.serving).await);
    }

    fn feels(&self, mood: Mood) {
        *self.inside.mood.lock() = mood;
    }

    fn asked(&self) -> usize {
        self.inside.asked.lock().len()
    }

    /// Configures a service to use this shop.
    fn configure(&self, config: &mut NodeConfig) {
        let secret = format!("whsec_{}", BASE64_STANDARD.encode(KEY));
        let check = &mut config.order_check;
        check.url = format!("http://{}/check?shop=1", self.addr);
        check.secret = Secret::new(secret);
        check.timeout_ms = TIMEOUT_MS;
        check.breaker_failures = BREAKER_FAILURES;
        check.breaker_open_ms = BREAKER_OPEN_MS;
        config.tickets.challenge = ChallengeKind::None;
    }
}

async fn answer(
    State(shop): State<Arc<Inside>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let at_a_time = shop.at_a_time.fetch_add(1, Ordering::SeqCst) + 1;
    shop.at_a_time_most.fetch_max(at_a_time, Ordering::SeqCst);
    let elsewhere = uri.path() == "/elsewhere";
    shop.asked.lock().push(Asked { uri, headers, body });
    let mood = shop.mood.lock().clone();
    let answer = match mood {
        _ if elsewhere => r#"{"ok":true}"#.into_response(),
        Mood::Says(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Mood::Redirects => {
            let to = [("location", "/elsewhere")];
            (StatusCode::TEMPORARY_REDIRECT, to, r#"{"ok":true}"#).into_response()
        }
        Mood::Slow(delay) => {
            tokio::time::sleep(delay).await;
            r#"{"ok":true}"#.into_response()
        }
    };
    shop.at_a_time.fetch_sub(1, Ordering::SeqCst);
    answer
}

fn is_checked(body: &mut Value) {
    body["requirements"] = json!(["order_check"]);
}

async fn order(service: &Service, sale: &str, user: &str) -> Reply {
    let path = format!("/v1/sales/{sale}/orders");
    service.act(&path, &service.token(user, "claim")).await
}

async fn remaining(service: &Service, sale: &str) -> i64 {
    let path = format!("/v1/campaigns/{sale}/state");
    let state = call(service.addr, "GET", &path, None, &[], None).await;
    state.json()["remaining"].as_i64().unwrap()
}

async fn metric(service: &Service, series: &str) -> f64 {
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in {metrics}"));
    value.trim().parse().unwrap()
}

async fn count(service: &Service, outcome: &str) -> f64 {
    let series = format!("qiang_order_checks_total{{outcome=\"{outcome}\"}}");
    metric(service, &series).await
}

#[tokio::test]
async fn the_shop_is_told_what_is_ordered_and_signed_for() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| shop.configure(config)).await;
    let sale = service.sale(9, is_checked).await;
    let (path, token) = (
        format!("/v1/sales/{sale}/orders"),
        service.token("ann", "claim"),
    );
    let id = [("x-request-id", "r-1"), ("idempotency-key", "k"), TRACE];
    let body = Some(json!({ "quantity": 1 }));
    let granted = call(service.addr, "POST", &path, Some(&token), &id, body.clone()).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    // The node knows the grant and does not ask the shop again.
    let again = call(service.addr, "POST", &path, Some(&token), &id, body).await;
    assert_eq!((again.status, again.body), (200, granted.body));
    let mut asked = std::mem::take(&mut *shop.inside.asked.lock());
    assert_eq!(asked.len(), 1);
    let Asked { uri, headers, body } = asked.remove(0);
    assert_eq!(uri, "/check?shop=1");
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(header("host"), shop.addr.to_string());
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header(TRACE.0), TRACE.1);
    assert_eq!(header("webhook-timestamp"), (START_MS / 1_000).to_string());
    let said: Value = serde_json::from_slice(&body).unwrap();
    let expected = json!({
        "type": "order.check",
        "timestamp": "2026-11-21T12:00:00.000Z",
        "data": { "campaign": sale, "kind": "sale", "user": "ann", "quantity": 1, "request_id": "r-1" },
    });
    assert_eq!(said, expected);
    let signed = [
        header("webhook-id").as_bytes(),
        header("webhook-timestamp").as_bytes(),
        &body,
    ]
    .join(&b'.');
    let signature = header("webhook-signature").strip_prefix("v1,").unwrap();
    let signature = BASE64_STANDARD.decode(signature).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &KEY);
    assert!(hmac::verify(&key, &signed, &signature).is_ok());
    service.stop().await;
}

#[tokio::test]
async fn what_the_shop_refuses_takes_no_unit() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| shop.configure(config)).await;
    let sale = service.sale(9, is_checked).await;
    let free = service.sale(9, |_| ()).await;
    let packet = service.red_packet(9, is_checked).await;
    for (answer, detail) in [
        (
            r#"{"ok":false,"reason":"no \"address\"\u001b<b>"}"#.to_owned(),
            "no \"address\" <b>".to_owned(),
        ),
        (
            format!(r#"{{"ok":false,"reason":"{}"}}"#, "x".repeat(3_000)),
            "x".repeat(200),
        ),
    ] {
        shop.feels(says(&answer));
        let refused = order(&service, &sale, "ann").await;
        refused.assert_problem(403, "order-check-refused");
        assert_eq!(refused.text("detail"), detail);
    }
    shop.feels(says(r#"{"ok":false}"#));
    let claim = format!("/v1/red-packets/{packet}/claims");
    let refused = service.act(&claim, &service.token("ann", "claim")).await;
    refused.assert_problem(403, "order-check-refused");
    assert_eq!(remaining(&service, &sale).await, 9);
    assert_eq!(count(&service, "refused").await, 3.0);
    // A refusal is an answer, so the breaker stays closed. A campaign without the requirement is not checked.
    assert_eq!(
        metric(&service, "qiang_order_check_breaker_open").await,
        0.0
    );
    assert_eq!(order(&service, &free, "ann").await.status, 201);
    assert_eq!(shop.asked(), 3);
    shop.feels(allows());
    assert_eq!(order(&service, &sale, "ann").await.status, 201);
    assert_eq!(remaining(&service, &sale).await, 8);
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_answer_is_no_yes() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| {
        shop.configure(config);
        config.order_check.breaker_failures = 100;
    })
    .await;
    let sale = service.sale(9, is_checked).await;
    let moods = [
        Mood::Says(500, r#"{"ok":true}"#.to_owned()),
        Mood::Says(404, String::new()),
        Mood::Redirects,
        says(""),
        says("yes"),
        says(r#"{"ok":1}"#),
        says(&format!(
            r#"{{"ok":true,"reason":"{}"}}"#,
            "x".repeat(5_000)
        )),
    ];
    let expected = moods.len();
    for mood in moods {
        shop.feels(mood);
        let refused = order(&service, &sale, "ann").await;
        refused.assert_problem(503, "order-check-unavailable");
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(count(&service, "failed").await, expected as f64);
    // Each check is sent once, also on a connection that was kept.
    assert_eq!(shop.asked(), expected);
    let elsewhere = |asked: &Asked| asked.uri.path() == "/elsewhere";
    assert!(!shop.inside.asked.lock().iter().any(elsewhere));

    shop.feels(Mood::Slow(Duration::from_secs(60)));
    let began = Instant::now();
    let refused = order(&service, &sale, "ann").await;
    refused.assert_problem(503, "order-check-unavailable");
    assert!(began.elapsed() >= Duration::from_millis(TIMEOUT_MS));
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(count(&service, "timed_out").await, 1.0);
    assert_eq!(remaining(&service, &sale).await, 9);
    service.stop().await;
}

#[tokio::test]
async fn a_shop_that_comes_back_is_asked_again() {
    let mut shop = Shop::open().await;
    let service = Service::start_with(|config, _| {
        shop.configure(config);
        config.order_check.breaker_failures = 100;
    })
    .await;
    let sale = service.sale(9, is_checked).await;
    assert_eq!(order(&service, &sale, "ann").await.status, 201);
    shop.shut().await;
    order(&service, &sale, "bob")
        .await
        .assert_problem(503, "order-check-unavailable");
    let listener = TcpListener::bind(shop.addr).await.unwrap();
    let mut shop = Shop::serve(listener, shop.inside);
    assert_eq!(order(&service, &sale, "bob").await.status, 201);
    // The shop restarts between requests. The client replaces the kept connection without an error.
    shop.shut().await;
    let listener = TcpListener::bind(shop.addr).await.unwrap();
    let _shop = Shop::serve(listener, shop.inside);
    assert_eq!(order(&service, &sale, "cid").await.status, 201);
    assert_eq!(count(&service, "failed").await, 1.0);
    service.stop().await;
}

/// A shop that does not answer any check, and a service with an open breaker. Returns also the sale.
async fn given_up(open_ms: u64) -> (Shop, Service, String) {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| {
        shop.configure(config);
        config.order_check.breaker_open_ms = open_ms;
    });
    let service = service.await;
    let sale = service.sale(9, is_checked).await;
    let down = || Mood::Says(500, String::new());
    // A refusal in between resets the count of failures in a row.
    for mood in [down(), down(), says(r#"{"ok":false}"#), down(), down()] {
        shop.feels(mood);
        order(&service, &sale, "ann").await;
    }
    assert_eq!(
        metric(&service, "qiang_order_check_breaker_open").await,
        0.0
    );
    refused(&service, &sale).await;
    assert_eq!(
        metric(&service, "qiang_order_check_breaker_open").await,
        1.0
    );
    (shop, service, sale)
}

async fn refused(service: &Service, sale: &str) {
    let refused = order(service, sale, "ann").await;
    refused.assert_problem(503, "order-check-unavailable");
}

#[tokio::test]
async fn a_shop_that_was_given_up_is_not_asked() {
    let (shop, service, sale) = given_up(BREAKER_OPEN_MS).await;
    let asked = shop.asked();
    shop.feels(allows());
    refused(&service, &sale).await;
    refused(&service, &sale).await;
    assert_eq!(shop.asked(), asked);
    assert_eq!(count(&service, "not_asked").await, 2.0);
    service.stop().await;
}

#[tokio::test]
async fn a_probe_finds_out_that_the_shop_is_back() {
    // The breaker allows a test request before the next order.
    let (shop, service, sale) = given_up(1).await;
    let asked = shop.asked();
    let soon = || tokio::time::sleep(Duration::from_millis(5));
    soon().await;
    refused(&service, &sale).await;
    assert_eq!(shop.asked(), asked + 1);
    assert_eq!(
        metric(&service, "qiang_order_check_breaker_open").await,
        1.0
    );
    shop.feels(allows());
    soon().await;
    for user in ["ann", "bob"] {
        assert_eq!(order(&service, &sale, user).await.status, 201);
        assert_eq!(
            metric(&service, "qiang_order_check_breaker_open").await,
            0.0
        );
    }
    assert_eq!(shop.asked(), asked + 3);
    assert_eq!(remaining(&service, &sale).await, 7);
    service.stop().await;
}

#[tokio::test]
async fn orders_may_be_let_through_while_the_shop_is_down() {
    let mut shop = Shop::open().await;
    let service = Service::start_with(|config, _| {
        shop.configure(config);
        config.order_check.policy = OrderCheckPolicy::Allow;
    })
    .await;
    let sale = service.sale(9, is_checked).await;
    shop.feels(says(r#"{"ok":false}"#));
    order(&service, &sale, "u0")
        .await
        .assert_problem(403, "order-check-refused");
    shop.shut().await;
    for n in 1..=BREAKER_FAILURES + 2 {
        assert_eq!(order(&service, &sale, &format!("u{n}")).await.status, 201);
    }
    assert_eq!(count(&service, "failed").await, f64::from(BREAKER_FAILURES));
    assert_eq!(count(&service, "not_asked").await, 2.0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_are_asked_about_at_a_time() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| {
        shop.configure(config);
        config.order_check.concurrent_max = 2;
        config.order_check.timeout_ms = 30_000;
    })
    .await;
    let service = Arc::new(service);
    let sale = service.sale(12, is_checked).await;
    shop.feels(Mood::Slow(Duration::from_millis(20)));
    let mut orders = JoinSet::new();
    for n in 0..12 {
        let (service, sale) = (Arc::clone(&service), sale.clone());
        orders.spawn(async move { order(&service, &sale, &format!("u{n}")).await.status });
    }
    assert_eq!(orders.join_all().await, [201; 12]);
    assert_eq!(shop.inside.at_a_time_most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_ticket_comes_before_the_question() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| shop.configure(config)).await;
    let both = |body: &mut Value| body["requirements"] = json!(["order_check", "ticket"]);
    let sale = service.sale(9, both).await;
    let path = format!("/v1/sales/{sale}");
    let seen = service.get(&path, &service.operator()).await;
    assert_eq!(
        seen.json()["requirements"],
        json!(["ticket", "order_check"])
    );
    let without = order(&service, &sale, "ann").await;
    without.assert_problem(403, "ticket-missing");
    let ann = service.token("ann", "claim");
    let ticket = service
        .act(&format!("{path}/tickets"), &ann)
        .await
        .text("ticket");
    assert_eq!(shop.asked(), 0);
    let (path, ticket) = (format!("{path}/orders"), [("grab-ticket", ticket.as_str())]);
    let granted = call(service.addr, "POST", &path, Some(&ann), &ticket, None).await;
    assert_eq!((granted.status, shop.asked()), (201, 1));
    service.stop().await;
}

#[tokio::test]
async fn without_a_shop_no_campaign_asks_for_a_check() {
    let shop = Shop::open().await;
    let service = Service::start_with(|config, _| shop.configure(config)).await;
    let sale = service.sale(9, is_checked).await;
    // A node without the configuration, as after a change of it.
    let service = service.restart().await;
    order(&service, &sale, "ann")
        .await
        .assert_problem(503, "unavailable");
    assert_eq!(remaining(&service, &sale).await, 9);
    let mut body = crate::node::http::common::sale(1);
    is_checked(&mut body);
    let refused = service.post("/v1/sales", &service.operator(), body).await;
    refused.assert_problem(422, "invalid");
    assert!(refused.text("detail").contains("order_check.url"));
    service.stop().await;
}
