//! Payments: what each of them pays.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use common::{Reply, Service, paid, send};
use http_body_util::Full;
use hyper::Request;
use qiang_core::ports::Clock as _;
use qiang_node::config::Secret;
use serde_json::json;

/// Orders of so many users, each held.
async fn orders(service: &Service, users: usize) -> Vec<String> {
    let sale = service.sale(users as u32, |_| ()).await;
    let mut orders = Vec::new();
    for n in 0..users {
        let token = service.token(&format!("user-{n}"), "claim");
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &token).await;
        orders.push(format!("/v1/orders/{}", order.text("order")));
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
    // A replay, and a payment of its own.
    assert_eq!(pay(0, "p").await.text("outcome"), "paid");
    assert_eq!(pay(1, "q").await.text("outcome"), "paid");
    pay(0, "q").await.assert_problem(409, "payment-used");
    let seen = service.get(&orders[0], &operator).await.json();
    assert_eq!(seen["refunds_due"], json!(0));
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

/// Sends a report that is signed with a secret, so many seconds ago.
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
        config.payments.other_secret = Secret::new(SECRETS[1]);
    })
    .await;
    let orders = orders(&service, 2).await;
    let report = |n: usize, reference: &str| {
        let mut body = paid(reference, 500);
        body["order"] = json!(orders[n].strip_prefix("/v1/orders/").unwrap());
        body.to_string()
    };
    let other = "whsec_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC";
    let (one, two) = (report(0, "p"), report(1, "q"));
    for (secret, age_s, body, sent) in [
        (other, 0, &one, &one),
        (SECRETS[0], 301, &one, &one),
        (SECRETS[0], -301, &one, &one),
        // Signed for another order.
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
    let less = report(1, "q").replace("500", "499");
    let less = signed(&service, SECRETS[0], 0, &less, &less).await;
    less.assert_problem(422, "amount-mismatch");

    // With a token, as everything else; then a signature does not matter.
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
