//! Mistakes of people who run promotions. Each has a way back, or a refusal that names one.

use serde_json::json;

use crate::node::http::{
    audience::claim,
    common::{Service, paid},
};

/// A sale with a wrong price and stock, and two orders: the price is corrected for later orders,
/// the stock is lowered to what users have, and the orders are cancelled and returned.
#[tokio::test]
async fn a_wrong_price_and_stock_are_corrected_while_the_sale_is_live() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service.sale(10, |_| ()).await;
    let (sale, orders) = (format!("/v1/sales/{id}"), format!("/v1/sales/{id}/orders"));
    let mut placed = Vec::new();
    for user in ["ann", "bob"] {
        let made = service.act(&orders, &service.token(user, "claim")).await;
        assert_eq!(made.status, 201, "{made:?}");
        placed.push(format!("/v1/orders/{}", made.text("id")));
    }
    let payment = format!("{}/payment", placed[0]);
    let made = service.post(&payment, &operator, paid("p", 500)).await;
    assert_eq!(made.status, 200, "{made:?}");

    let price = json!({ "unit_price": { "amount": 50_000, "currency": "CNY" } });
    let changed = service.patch(&sale, &operator, price).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    service
        .patch(&sale, &operator, json!({ "stock": 1 }))
        .await
        .assert_problem(409, "stock-granted");
    let changed = service.patch(&sale, &operator, json!({ "stock": 2 })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let sold_out = service.act(&orders, &service.token("cid", "claim")).await;
    sold_out.assert_problem(409, "sold-out");

    for (order, verb) in placed.iter().zip(["return", "cancellation"]) {
        let undone = service.act(&format!("{order}/{verb}"), &operator).await;
        assert_eq!(undone.status, 200, "{undone:?}");
    }
    let later = service.act(&orders, &service.token("cid", "claim")).await;
    assert_eq!(
        (later.status, &later.json()["amount"]["amount"]),
        (201, &json!(50_000))
    );
    service.stop().await;
}

#[tokio::test]
async fn a_closed_sale_stays_closed_and_another_one_sells() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service.sale(5, |_| ()).await;
    let campaign = format!("/v1/campaigns/{id}");
    let closed = service.act(&format!("{campaign}/close"), &operator).await;
    assert_eq!(closed.status, 200, "{closed:?}");
    service
        .act(&format!("{campaign}/resume"), &operator)
        .await
        .assert_problem(409, "phase-conflict");
    service
        .patch(&format!("/v1/sales/{id}"), &operator, json!({ "stock": 9 }))
        .await
        .assert_problem(409, "phase-conflict");
    let other = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{other}/orders");
    let made = service.act(&orders, &service.token("ann", "claim")).await;
    assert_eq!(made.status, 201, "{made:?}");
    service.stop().await;
}

/// A passphrase cannot be changed. The sender closes the packet, has the rest back and sends another.
#[tokio::test]
async fn a_packet_whose_passphrase_leaked_is_closed_and_its_rest_returns() {
    let service = Service::start().await;
    let phrase = json!({ "passphrase": "fortune 2026" });
    let audience = phrase.clone();
    let id = service
        .red_packet(3, |body| body["audience"] = audience)
        .await;
    let granted = claim(&service, &id, "ann", phrase.clone()).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    let (sam, path) = (
        service.token("sam", "send"),
        format!("/v1/red-packets/{id}"),
    );
    let before = service.get(&path, &sam).await.json();
    let close = format!("/v1/campaigns/{id}/close");
    assert_eq!(service.act(&close, &sam).await.status, 200);
    claim(&service, &id, "eve", phrase)
        .await
        .assert_problem(410, "ended");
    let closed = service.get(&path, &sam).await.json();
    assert_eq!(closed["refunded"], before["remaining"]);
    assert_eq!(
        service.balance("sam").await,
        before["remaining"]["amount"].as_i64().unwrap()
    );
    service.stop().await;
}

#[tokio::test]
async fn an_archived_sale_records_a_late_payment() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{id}/orders");
    let made = service.act(&orders, &service.token("ann", "claim")).await;
    let order = format!("/v1/orders/{}", made.text("id"));
    for verb in ["close", "archive"] {
        let path = format!("/v1/campaigns/{id}/{verb}");
        let done = service.act(&path, &operator).await;
        assert_eq!(done.status, 200, "{verb}: {done:?}");
    }
    let payment = format!("{order}/payment");
    let reported = service.post(&payment, &operator, paid("late", 500)).await;
    assert_eq!(reported.status, 200, "{reported:?}");
    let outcome = reported.text("outcome");
    assert!(
        ["paid", "refund_due"].contains(&outcome.as_str()),
        "{outcome}"
    );
    service.stop().await;
}
