//! Free sales.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::node::http::common::{Service, paid};

const PATIENCE: Duration = Duration::from_secs(60);

fn free(body: &mut Value) {
    body["unit_price"]["amount"] = json!(0);
    body["seller"] = json!("shop");
}

/// The orders of a sale in the ledger, once it has `count` of them.
async fn listed(service: &Service, sale: &str, count: usize) -> Vec<Value> {
    let path = format!("/v1/sales/{sale}/orders");
    let over = Instant::now() + PATIENCE;
    loop {
        let page = service.get(&path, &service.operator()).await.json();
        let orders = page["data"].as_array().expect("a list").clone();
        if page["settled"] == json!(true) && orders.len() == count {
            return orders;
        }
        assert!(Instant::now() < over, "{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A free order belongs to the buyer at once. It stays paid after its hold, although no payment was reported.
#[tokio::test]
async fn an_order_that_costs_nothing_is_paid_at_once() {
    let service = Service::start().await;
    let sale = service.sale(3, free).await;
    let path = format!("/v1/sales/{sale}/orders");
    let (ann, operator) = (service.token("ann", "claim"), service.operator());
    let bought = service
        .post_key(&path, &ann, "k", json!({"quantity": 1}))
        .await;
    assert_eq!(
        (bought.status, bought.text("state").as_str()),
        (201, "paid")
    );
    let again = service
        .post_key(&path, &ann, "k", json!({"quantity": 1}))
        .await;
    assert_eq!((again.status, again.text("state").as_str()), (200, "paid"));
    let order = format!("/v1/orders/{}", bought.text("id"));
    // An integration may report a payment of zero.
    let payment = format!("{order}/payment");
    for reference in ["p", "p", "q"] {
        let reply = service.post(&payment, &operator, paid(reference, 0)).await;
        assert_eq!(
            (reply.status, reply.text("outcome").as_str()),
            (200, "paid")
        );
        assert_eq!(reply.json()["order"]["refundable_payments"], json!(0));
    }
    // Money for a free order makes a refund due.
    let reply = service.post(&payment, &operator, paid("r", 1)).await;
    assert_eq!(
        (reply.status, reply.text("outcome").as_str()),
        (200, "refund_due")
    );
    assert_eq!(reply.json()["order"]["refundable_payments"], json!(1));
    service.clock.advance_ms(24 * 3_600_000);
    let service = service.restart().await;
    let seen = service.get(&order, &ann_of(&service)).await.json();
    assert_eq!(
        (&seen["state"], &seen["refundable_payments"]),
        (&json!("paid"), &json!(1))
    );
    let rows = listed(&service, &sale, 1).await;
    assert_eq!(rows[0]["state"], json!("paid"), "{rows:?}");
    let reference = format!("/v1/payments/free-{}", bought.text("id"));
    let payment = service.get(&reference, &service.operator()).await;
    assert_eq!(
        (payment.status, payment.text("outcome").as_str()),
        (200, "paid")
    );
    service.stop().await;
}

fn ann_of(service: &Service) -> String {
    service.token("ann", "claim")
}

/// The buyer cancels a free order like a held one. It is returned, another user gets the unit, and no refund is due.
#[tokio::test]
async fn a_free_order_is_given_back() {
    let service = Service::start().await;
    let sale = service.sale(1, free).await;
    let path = format!("/v1/sales/{sale}/orders");
    let (ann, bob) = (service.token("ann", "claim"), service.token("bob", "claim"));
    let bought = service.act(&path, &ann).await;
    let cancel = format!("/v1/orders/{}/cancellation", bought.text("id"));
    for _ in 0..2 {
        let reply = service.act(&cancel, &ann).await;
        assert_eq!(
            (reply.status, reply.text("state").as_str()),
            (200, "returned")
        );
        assert_eq!(reply.json()["refundable_payments"], json!(0));
    }
    let other = service.act(&path, &bob).await;
    assert_eq!((other.status, other.text("state").as_str()), (201, "paid"));
    let rows = listed(&service, &sale, 2).await;
    let states: Vec<_> = rows.iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["returned", "paid"]);
    let owed = service.get("/v1/accounts/ann", &service.operator()).await;
    assert_eq!(owed.json()["balances"], json!([]), "{owed:?}");
    service.stop().await;
}
