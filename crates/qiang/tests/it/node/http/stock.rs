//! Changes of a sale's stock over HTTP.

use crate::node::http::common::{Service, sale};
use serde_json::{Value, json};

#[tokio::test]
async fn the_stock_of_a_sale_is_changed() {
    let service = Service::start().await;
    let id = service.sale(2, |_| ()).await;
    let (path, operator) = (format!("/v1/sales/{id}"), service.operator());
    let order = |user: &str| {
        let (path, token) = (format!("{path}/orders"), service.token(user, "claim"));
        let service = &service;
        async move { service.post(&path, &token, json!({ "quantity": 1 })).await }
    };
    assert_eq!(order("ann").await.status, 201);
    assert_eq!(order("bob").await.status, 201);
    order("cid").await.assert_problem(409, "sold-out");
    let change = |stock: i64| service.patch(&path, &operator, json!({ "stock": stock }));
    for _ in 0..2 {
        let changed = change(3).await;
        let body = changed.json();
        assert_eq!(
            (changed.status, &body["stock"], &body["state"]["remaining"]),
            (200, &json!(3), &json!(1))
        );
    }
    assert_eq!(order("cid").await.status, 201);
    let seen = service.get(&path, &service.token("ann", "")).await;
    assert_eq!(seen.json()["stock"], json!(3));
    change(2).await.assert_problem(409, "stock-granted");
    change(0).await.assert_problem(422, "invalid");
    change(-1).await.assert_problem(422, "invalid");
    let more = json!({ "stock": 3, "price": 1 });
    let refused = service.patch(&path, &operator, more).await;
    refused.assert_problem(422, "invalid");
    let stranger = service.token("ann", "claim");
    let refused = service.patch(&path, &stranger, json!({ "stock": 9 })).await;
    refused.assert_problem(403, "forbidden");
    let packet = service.red_packet(3, |_| ()).await;
    let path = format!("/v1/sales/{packet}");
    let refused = service.patch(&path, &operator, json!({ "stock": 9 })).await;
    refused.assert_problem(404, "unknown-campaign");
    service
        .act(&format!("/v1/campaigns/{id}/close"), &operator)
        .await;
    change(9).await.assert_problem(409, "phase-conflict");
    service.stop().await;
}

/// 2^53 − 1 is the largest integer that JavaScript represents exactly with all smaller ones.
#[tokio::test]
async fn the_largest_stock_is_exact_in_json() {
    const MOST: u64 = 9_007_199_254_740_991;
    let service = Service::start().await;
    let operator = service.operator();
    let with = |stock: u64, price: i64| {
        let mut body = sale(1);
        (body["stock"], body["unit_price"]["amount"]) = (json!(stock), json!(price));
        body
    };
    for (stock, price) in [(MOST + 1, 0), (MOST, 2), (MOST / 2 + 1, 2)] {
        let refused = service
            .post("/v1/sales", &operator, with(stock, price))
            .await;
        refused.assert_problem(422, "invalid");
        let field = if price == 0 { "stock" } else { "unit price" };
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains(field), "{detail}");
    }
    let made = service.post("/v1/sales", &operator, with(MOST, 1)).await;
    assert_eq!((made.status, &made.json()["stock"]), (201, &json!(MOST)));
    let path = format!("/v1/sales/{}", made.text("id"));
    let claim = json!({ "quantity": 1 });
    let token = service.token("ann", "claim");
    let order = service.post(&format!("{path}/orders"), &token, claim).await;
    assert_eq!(order.status, 201);
    let numbers = async || {
        let state = service.get(&path, &operator).await.json()["state"].clone();
        [&state["supply"], &state["granted"], &state["remaining"]].map(Value::as_u64)
    };
    assert_eq!(numbers().await, [MOST, 1, MOST - 1].map(Some));
    let changed = service
        .patch(&path, &operator, json!({ "stock": MOST - 1 }))
        .await;
    assert_eq!(
        (changed.status, changed.json()["stock"].as_u64()),
        (200, Some(MOST - 1))
    );
    assert_eq!(numbers().await, [MOST - 1, 1, MOST - 2].map(Some));
    let refused = service
        .patch(&path, &operator, json!({ "stock": MOST + 1 }))
        .await;
    refused.assert_problem(422, "invalid");
    service.stop().await;
}
