//! Payments: what each of them pays.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use common::{Service, paid};
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
