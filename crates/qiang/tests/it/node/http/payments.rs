//! Payments and their outcomes.

use std::time::{Duration, Instant};

use crate::node::http::common::{Reply, Service, paid, send};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use qiang::config::Secret;
use qiang_core::{money::MONEY_MINOR_MAX, ports::Clock as _};
use serde_json::{Value, json};

/// Held orders of this number of users.
async fn orders(service: &Service, users: usize) -> Vec<String> {
    let sale = service.sale(users as u32, |_| ()).await;
    let mut orders = Vec::new();
    for n in 0..users {
        let token = service.token(&format!("user-{n}"), "claim");
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &token).await;
        orders.push(format!("/v1/orders/{}", order.text("id")));
    }
    orders
}

#[tokio::test]
async fn a_payment_pays_one_order() {
    let service = Service::start().await;
    let operator = service.operator();
    let orders = orders(&service, 2).await;
    let pay = async |n: usize, reference: &str| {
        let path = format!("{}/payment", orders[n]);
        service.post(&path, &operator, paid(reference, 500)).await
    };
    let state = async |n: usize| service.get(&orders[n], &operator).await.json()["state"].clone();
    assert_eq!(pay(0, "p").await.text("outcome"), "paid");
    pay(1, "p").await.assert_problem(409, "payment-used");
    assert_eq!(state(1).await, json!("held"));
    // A retry, and a payment with another reference.
    assert_eq!(pay(0, "p").await.text("outcome"), "paid");
    assert_eq!(pay(1, "q").await.text("outcome"), "paid");
    pay(0, "q").await.assert_problem(409, "payment-used");
    let seen = service.get(&orders[0], &operator).await.json();
    assert_eq!(seen["refundable_payments"], json!(0));
    service.stop().await;
}

/// A payment is refused if it would raise a sum above the limit of accounts. The ledger could never settle it.
#[tokio::test]
async fn a_payment_beyond_what_accounts_hold_is_refused() {
    let service = Service::start().await;
    let operator = service.operator();
    let orders = orders(&service, 1).await;
    let path = format!("{}/payment", orders[0]);
    let pay = async |reference: &str| service.post(&path, &operator, paid(reference, 500)).await;
    assert_eq!(pay("first").await.text("outcome"), "paid");
    // Imitates earlier payments of other users.
    let file = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    let owes = |minor: i64| {
        let sql = "UPDATE accounts SET balance = ?1 WHERE purpose = 'outside' AND currency = 'CNY'";
        file.execute(sql, [-minor]).unwrap()
    };
    let started = Instant::now();
    while owes(MONEY_MINOR_MAX - 499) == 0 {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "the payment is not settled"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = pay("second").await;
    refused.assert_problem(422, "invalid");
    let detail = refused.text("detail");
    assert!(detail.contains("cannot hold that much"), "{detail}");
    let seen = service.get(&orders[0], &operator).await.json();
    assert_eq!(
        seen["refundable_payments"],
        json!(0),
        "the refused payment left no trace"
    );
    assert_eq!(
        pay("first").await.text("outcome"),
        "paid",
        "a retry of a settled payment needs no room"
    );
    // If there is room, it is a second payment of the order, and a refund is due.
    owes(MONEY_MINOR_MAX - 500);
    assert_eq!(pay("second").await.text("outcome"), "refund_due");
    service.stop().await;
}

/// A million of millions, in fen.
const LARGE: i64 = 1_000_000_000_000_000;

/// The file of the service, to change it by SQL.
fn file_of(service: &Service) -> rusqlite::Connection {
    rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap()
}

/// One held order per sale, for this number of sales, each of one unit at the large price.
async fn large_orders(service: &Service, count: usize) -> Vec<String> {
    let mut orders = Vec::new();
    for n in 0..count {
        let price = |body: &mut Value| body["unit_price"]["amount"] = json!(LARGE);
        let sale = service.sale(1, price).await;
        let token = service.token(&format!("user-{n}"), "claim");
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &token).await;
        orders.push(format!("/v1/orders/{}", order.text("id")));
    }
    orders
}

/// Concurrent payments of many sales: those beyond the limit of accounts are refused, even before any of the others is
/// settled.
#[tokio::test]
async fn payments_at_once_are_refused_beyond_what_accounts_hold() {
    let service = Service::start().await;
    let operator = service.operator();
    let orders = large_orders(&service, 8).await;
    let pay = |n: usize, reference: &str| {
        let (path, body) = (format!("{}/payment", orders[n]), paid(reference, LARGE));
        let (service, operator) = (&service, &operator);
        async move { service.post(&path, operator, body).await }
    };
    assert_eq!(pay(0, "first").await.text("outcome"), "paid");
    let settled = service.balance("olga");
    assert_eq!(settled.await, LARGE);
    // Imitates earlier payments, which leave room for three more.
    let file = file_of(&service);
    let sql = "UPDATE accounts SET balance = ?1 WHERE purpose = 'outside' AND currency = 'CNY'";
    let before = MONEY_MINOR_MAX - 3 * LARGE - 7;
    assert_eq!(file.execute(sql, [-before]), Ok(1));
    let references: Vec<_> = (1..orders.len()).map(|n| format!("p{n}")).collect();
    let all = references
        .iter()
        .zip(1..)
        .map(|(reference, n)| pay(n, reference));
    let replies = futures_util::future::join_all(all).await;
    let taken = replies.iter().filter(|reply| reply.status == 200);
    assert_eq!(taken.count(), 3, "{replies:?}");
    let refused = replies.iter().filter(|reply| reply.status != 200);
    for reply in refused {
        reply.assert_problem(422, "invalid");
        assert!(reply.text("detail").contains("cannot hold that much"));
    }
    let quarantine = service.get("/v1/quarantine", &operator).await;
    assert_eq!(quarantine.json()["data"], json!([]), "{quarantine:?}");
    service.stop().await;
}

/// While settlement lags, it is unknown whether accounts have room for another large payment.
#[tokio::test]
async fn a_large_payment_waits_for_those_before_it_to_be_settled() {
    let service = Service::start().await;
    let operator = service.operator();
    let (large, small) = (large_orders(&service, 3).await, orders(&service, 1).await);
    let pay = async |order: &str, reference: &str, minor| {
        let path = format!("{order}/payment");
        service.post(&path, &operator, paid(reference, minor)).await
    };
    assert_eq!(pay(&large[0], "p0", LARGE).await.text("outcome"), "paid");
    assert_eq!(service.balance("olga").await, LARGE);
    let file = file_of(&service);
    let stuck =
        "CREATE TRIGGER stuck BEFORE UPDATE ON settled BEGIN SELECT raise(ABORT, 'stuck'); END";
    file.execute_batch(stuck).unwrap();
    assert_eq!(pay(&large[1], "p1", LARGE).await.text("outcome"), "paid");
    let refused = pay(&large[2], "p2", LARGE).await;
    refused.assert_problem(503, "unavailable");
    assert!(refused.text("detail").contains("nothing was decided"));
    let seen = service.get(&large[2], &operator).await.json();
    assert_eq!(seen["state"], json!("held"));
    // Small payments do not wait, and neither does the next large one once settlement has caught up.
    assert_eq!(pay(&small[0], "q", 500).await.text("outcome"), "paid");
    file.execute_batch("DROP TRIGGER stuck").unwrap();
    let started = Instant::now();
    let paid = loop {
        let reply = pay(&large[2], "p2", LARGE).await;
        if reply.status == 200 {
            break reply;
        }
        reply.assert_problem(503, "unavailable");
        assert!(started.elapsed() < Duration::from_secs(20), "{reply:?}");
    };
    assert_eq!(paid.text("outcome"), "paid");
    service.stop().await;
}

/// Refunds due from a seller are limited to the amount that an account can hold.
#[tokio::test]
async fn a_return_beyond_what_accounts_hold_is_refused() {
    let service = Service::start().await;
    let operator = service.operator();
    let orders = large_orders(&service, 1).await;
    let payment = format!("{}/payment", orders[0]);
    let reply = service.post(&payment, &operator, paid("p", LARGE)).await;
    assert_eq!(reply.text("outcome"), "paid");
    assert_eq!(service.balance("olga").await, LARGE);
    let file = file_of(&service);
    let sql = "UPDATE accounts SET balance = ?1 WHERE owner = 'olga' AND purpose = 'user'";
    let owes = |minor: i64| assert_eq!(file.execute(sql, [-minor]), Ok(1));
    owes(MONEY_MINOR_MAX - LARGE + 1);
    let path = format!("{}/return", orders[0]);
    let take_back = || service.act(&path, &operator);
    take_back().await.assert_problem(422, "invalid");
    let seen = service.get(&orders[0], &operator).await.json();
    assert_eq!(seen["state"], json!("paid"));
    owes(MONEY_MINOR_MAX - LARGE);
    for _ in 0..2 {
        assert_eq!(take_back().await.status, 200, "a retry changes nothing");
    }
    service.stop().await;
}

#[tokio::test]
async fn of_orders_paid_at_once_by_one_payment_one_is_paid() {
    let service = Service::start().await;
    let operator = service.operator();
    let orders = orders(&service, 16).await;
    let paths: Vec<_> = orders
        .iter()
        .map(|order| format!("{order}/payment"))
        .collect();
    let all = paths
        .iter()
        .map(|path| service.post(path, &operator, paid("p", 500)));
    let replies = futures_util::future::join_all(all).await;
    let count = |status: u16| {
        replies
            .iter()
            .filter(|reply| reply.status == status)
            .count()
    };
    assert_eq!((count(200), count(409)), (1, 15), "{replies:?}");
    service.stop().await;
}

const SECRETS: [&str; 2] = [
    "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
];

/// Sends a report with a signature of this secret, made `age_s` seconds ago.
async fn signed(service: &Service, secret: &str, age_s: i64, body: &str, sent: &str) -> Reply {
    let secret = secret.strip_prefix("whsec_").unwrap();
    let key = hmac::Key::new(HMAC_SHA256, &BASE64_STANDARD.decode(secret).unwrap());
    let at = service.clock.now().as_millis() / 1_000 - age_s;
    let signature = hmac::sign(&key, format!("id-1.{at}.{body}").as_bytes());
    let request = Request::post("/v1/payments")
        .header("host", "test")
        .header("content-type", "application/json")
        .header("webhook-id", "id-1")
        .header("webhook-timestamp", at)
        .header(
            "webhook-signature",
            format!("v1,{}", BASE64_STANDARD.encode(signature)),
        );
    let body = Full::new(Bytes::copy_from_slice(sent.as_bytes()));
    send(service.addr, request.body(body).unwrap()).await
}

#[tokio::test]
async fn a_payment_service_signs_what_it_reports() {
    let service = Service::start_with(|config, _| {
        config.payments.secret = Secret::new(SECRETS[0]);
        config.payments.rotation_secret = Secret::new(SECRETS[1]);
    })
    .await;
    let orders = orders(&service, 2).await;
    let of = |n: usize, reference: &str, amount: i64| {
        let mut body = paid(reference, amount);
        body["order"] = json!(orders[n].strip_prefix("/v1/orders/").unwrap());
        body.to_string()
    };
    let report = |n: usize, reference: &str| of(n, reference, 500);
    let other = "whsec_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC";
    let (one, two) = (report(0, "p"), report(1, "q"));
    for (secret, age_s, body, sent) in [
        (other, 0, &one, &one),
        (SECRETS[0], 301, &one, &one),
        (SECRETS[0], -301, &one, &one),
        // The signature is of another order's report.
        (SECRETS[0], 0, &one, &two),
    ] {
        let refused = signed(&service, secret, age_s, body, sent).await;
        refused.assert_problem(401, "unauthenticated");
    }
    for secret in SECRETS {
        let taken = signed(&service, secret, 300, &one, &one).await;
        assert_eq!(
            (taken.status, taken.text("outcome")),
            (200, "paid".to_owned())
        );
    }
    let used = report(1, "p");
    let used = signed(&service, SECRETS[0], 0, &used, &used).await;
    used.assert_problem(409, "payment-used");
    // Another amount has arrived, so a refund is due.
    let less = of(1, "less", 499);
    let less = signed(&service, SECRETS[0], 0, &less, &less).await;
    assert_eq!(
        (less.status, less.text("outcome")),
        (200, "refund_due".to_owned()),
        "{less:?}"
    );

    let mut other = serde_json::from_str::<serde_json::Value>(&report(1, "q")).unwrap();
    other["user"] = json!("somebody-else");
    let other = other.to_string();
    let other = signed(&service, SECRETS[0], 0, &other, &other).await;
    other.assert_problem(409, "user-mismatch");

    // The report has a token, so its signature does not matter.
    let mut body = paid("q", 500);
    body["order"] = json!(orders[1].strip_prefix("/v1/orders/").unwrap());
    let buyer = service.token("user-1", "claim");
    let buyer = service.post("/v1/payments", &buyer, body.clone()).await;
    buyer.assert_problem(403, "forbidden");
    let taken = service
        .post("/v1/payments", &service.operator(), body)
        .await;
    assert_eq!(taken.text("outcome"), "paid");
    let with = |header: (&str, String)| {
        let request = Request::post("/v1/payments")
            .header("host", "test")
            .header("content-type", "application/json")
            .header("webhook-signature", "v1,AAAA")
            .header(header.0, header.1);
        request.body(Full::new(Bytes::from(two.clone()))).unwrap()
    };
    let refused = send(service.addr, with(("x-other", String::new()))).await;
    refused.assert_problem(401, "unauthenticated");
    let token = format!("Bearer {}", service.operator());
    let taken = send(service.addr, with(("authorization", token))).await;
    assert_eq!(taken.text("outcome"), "paid");
    service.stop().await;
}

/// The time this number of seconds after the start, in RFC 3339.
fn at(seconds: i64) -> String {
    let seconds = 12 * 3_600 + seconds;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("2026-11-21T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}

fn paid_at(reference: &str, seconds: i64) -> Value {
    let mut body = paid(reference, 500);
    body["paid_at"] = json!(at(seconds));
    body
}

#[tokio::test]
async fn the_time_of_a_payment_decides_whether_the_hold_was_kept() {
    let service = Service::start_with_grace(30_000).await;
    let pay = service.token("cashier", "pay");
    let sale = service
        .sale(3, |body| body["hold_seconds"] = json!(60))
        .await;
    let mut payments = Vec::new();
    for user in ["ann", "bob", "cat"] {
        let token = service.token(user, "claim");
        let order = service
            .act(&format!("/v1/sales/{sale}/orders"), &token)
            .await;
        payments.push(format!("/v1/orders/{}/payment", order.text("id")));
    }
    let outcome = async |n: usize, body: Value| {
        let reply = service.post(&payments[n], &pay, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text("outcome")
    };
    // A payment time before the order or after the report is refused. Clocks may differ by a minute.
    for (seconds, says) in [(-61, "before the order"), (61, "lies ahead")] {
        let refused = service
            .post(&payments[0], &pay, paid_at("p", seconds))
            .await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], "#/paid_at");
        assert!(refused.text("detail").contains(says), "{refused:?}");
    }
    service.clock.advance_ms(80_000);
    // Paid in time, and reported within the grace. A retry gets the same answer.
    for _ in 0..2 {
        assert_eq!(outcome(0, paid_at("a", 59)).await, "paid");
    }
    // Paid too late, or without a time: the hold is over, and the units are still in stock.
    assert_eq!(outcome(1, paid_at("b", 60)).await, "reinstated");
    // The grace is over, and another user has the last units.
    service.clock.advance_ms(10_000);
    let dan = service.token("dan", "claim");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &dan).await;
        match order.status {
            201 => break,
            _ => assert!(Instant::now() < until, "{order:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(outcome(2, paid_at("c", 59)).await, "refund_due");
    service.stop().await;
}

#[tokio::test]
async fn what_was_paid_while_the_service_was_down_pays_the_order() {
    let service = Service::start_with_grace(30_000).await;
    let sale = service
        .sale(2, |body| body["hold_seconds"] = json!(60))
        .await;
    let mut orders = Vec::new();
    for user in ["ann", "bob"] {
        let token = service.token(user, "claim");
        let path = format!("/v1/sales/{sale}/orders");
        orders.push(service.act(&path, &token).await.text("id"));
    }
    let service = service.restart_after(600_000).await;
    service.clock.advance_ms(29_000);
    let pay = service.token("cashier", "pay");
    let path = format!("/v1/orders/{}/payment", orders[0]);
    let paid = service.post(&path, &pay, paid_at("a", 59)).await;
    assert_eq!(paid.text("outcome"), "paid", "{paid:?}");
    // Holds were paused during the stop. This hold continues for its remaining time, and then has its grace.
    service.clock.advance_ms(61_000);
    let bob = service.token("bob", "claim");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let order = service
            .get(&format!("/v1/orders/{}", orders[1]), &bob)
            .await;
        match order.text("state").as_str() {
            "expired" => break,
            state => assert_eq!(state, "held"),
        }
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    service.stop().await;
}
