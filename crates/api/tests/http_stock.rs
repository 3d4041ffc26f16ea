//! The stock of a sale is raised and lowered over HTTP.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use common::Service;
use serde_json::json;

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
