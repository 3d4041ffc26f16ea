//! Held orders that are cancelled in parts, from the request to the payment of the rest.

use crate::node::http::common::{Reply, Service, paid};
use serde_json::{Value, json};

struct Case {
    service: Service,
    operator: String,
    /// The buyer.
    ann: String,
    /// Path of an order of three units for 500 each.
    order: String,
    sale: String,
}

impl Case {
    async fn new() -> Self {
        let service = Service::start().await;
        let (operator, ann) = (service.operator(), service.token("ann", "claim"));
        let sale = service.sale(5, |body| body["per_user_limit"] = json!(3));
        let sale = sale.await.to_string();
        let path = format!("/v1/sales/{sale}/orders");
        let bought = service.post(&path, &ann, json!({ "quantity": 3 })).await;
        let price = bought.json()["amount"]["amount"].as_i64().unwrap();
        assert_eq!(price % 3, 0);
        let order = format!("/v1/orders/{}", bought.text("id"));
        Self {
            service,
            operator,
            ann,
            order,
            sale,
        }
    }

    async fn cancel(&self, key: &str, quantity: i64) -> Reply {
        let path = format!("{}/cancellation", self.order);
        let body = json!({ "quantity": quantity });
        self.service.post_key(&path, &self.ann, key, body).await
    }

    async fn pay(&self, payment: &str, minor: i64) -> Reply {
        let path = format!("{}/payment", self.order);
        let body = paid(payment, minor);
        self.service.post(&path, &self.operator, body).await
    }

    /// State, units, price and cancelled units of the order.
    async fn seen(&self) -> Value {
        let seen = self.service.get(&self.order, &self.ann).await.json();
        let amount = &seen["amount"]["amount"];
        json!([
            seen["state"],
            seen["quantity"],
            amount,
            seen["cancelled_quantity"]
        ])
    }

    async fn price(&self) -> i64 {
        let seen = self.seen().await;
        seen[2].as_i64().unwrap() / seen[1].as_i64().unwrap()
    }

    async fn remaining(&self) -> Value {
        let path = format!("/v1/campaigns/{}/state", self.sale);
        self.service.get(&path, &self.ann).await.json()["remaining"].clone()
    }
}

#[tokio::test]
async fn units_of_a_held_order_are_cancelled_once_per_key() {
    let case = Case::new().await;
    let price = case.price().await;
    assert_eq!(case.seen().await, json!(["held", 3, 3 * price, 0]));
    let path = format!("{}/cancellation", case.order);
    let one = json!({ "quantity": 1 });
    let without_key = case.service.post(&path, &case.ann, one).await;
    without_key.assert_problem(400, "bad-request");
    case.cancel("a", 0).await.assert_problem(422, "invalid");
    let too_many = case.cancel("a", 4).await;
    too_many.assert_problem(409, "cancellation-exceeds-order");
    for _ in 0..3 {
        let cancelled = case.cancel("b", 1).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        assert_eq!(cancelled.json()["quantity"], json!(2));
    }
    case.cancel("b", 2).await.assert_problem(422, "key-reused");
    assert_eq!(case.seen().await, json!(["held", 2, 2 * price, 1]));
    assert_eq!(case.remaining().await, json!(3));
    // The unit frees the limit.
    let path = format!("/v1/sales/{}/orders", case.sale);
    let more = case
        .service
        .post(&path, &case.ann, json!({ "quantity": 1 }));
    assert_eq!(more.await.status, 201);
    // The old price is another amount, and the new one pays.
    let old = case.pay("old", 3 * price).await;
    assert_eq!(old.text("outcome"), "refund_due", "{old:?}");
    for _ in 0..2 {
        let new = case.pay("new", 2 * price).await;
        assert_eq!(new.text("outcome"), "paid", "{new:?}");
    }
    assert_eq!(case.seen().await, json!(["paid", 2, 2 * price, 1]));
    case.cancel("c", 1)
        .await
        .assert_problem(409, "order-conflict");
    // A retry is answered, and a return of a unit owes its price.
    assert_eq!(case.cancel("b", 1).await.status, 200);
    let path = format!("{}/return", case.order);
    let body = json!({ "quantity": 1 });
    let returned = case
        .service
        .post_key(&path, &case.operator, "b", body)
        .await;
    assert_eq!(
        returned.json()["returned_quantity"],
        json!(1),
        "{returned:?}"
    );
    let path = format!("{}/refunds", case.order);
    let due = case.service.get(&path, &case.ann).await.json();
    assert_eq!(due["due"]["amount"], json!(4 * price), "{due}");
    // Lists have the units that are left.
    let listed = case
        .service
        .get("/v1/accounts/ann/orders", &case.ann)
        .await
        .json();
    let orders = listed["data"].as_array().unwrap();
    let reduced = orders
        .iter()
        .find(|it| it["cancelled_quantity"] == json!(1));
    assert_eq!(reduced.unwrap()["quantity"], json!(2), "{listed}");
    case.service.stop().await;
}

#[tokio::test]
async fn the_last_units_cancel_the_order() {
    let case = Case::new().await;
    let price = case.price().await;
    case.cancel("a", 1).await;
    for _ in 0..2 {
        let cancelled = case.cancel("b", 2).await;
        assert_eq!(cancelled.text("state"), "cancelled", "{cancelled:?}");
    }
    assert_eq!(case.seen().await, json!(["cancelled", 2, 2 * price, 1]));
    assert_eq!(case.remaining().await, json!(5));
    let late = case.pay("p", 2 * price).await;
    assert_eq!(late.text("outcome"), "refund_due", "{late:?}");
    case.service.stop().await;
}

/// Reports of every price race the cancellations. One that pays is of the units that the order keeps.
#[tokio::test]
async fn payments_that_race_cancellations_pay_for_what_is_left() {
    let case = Case::new().await;
    let price = case.price().await;
    let (one, two) = tokio::join!(case.cancel("a", 1), case.cancel("b", 1));
    assert_eq!((one.status, two.status), (200, 200));
    let (cancelled, whole, old, new) = tokio::join!(
        case.cancel("c", 1),
        case.pay("p3", 3 * price),
        case.pay("p2", 2 * price),
        case.pay("p1", price),
    );
    for due in [whole, old] {
        assert_eq!(due.text("outcome"), "refund_due", "{due:?}");
    }
    match new.text("outcome").as_str() {
        "paid" => {
            cancelled.assert_problem(409, "order-conflict");
            assert_eq!(case.seen().await, json!(["paid", 1, price, 2]));
        }
        outcome => {
            assert_eq!((outcome, cancelled.status), ("refund_due", 200));
            assert_eq!(case.seen().await, json!(["cancelled", 1, price, 2]));
        }
    }
    case.service.stop().await;
}
