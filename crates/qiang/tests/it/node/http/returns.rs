//! Orders that are returned in parts, from the request to the refund.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EventLog, LedgerError},
};

use crate::node::http::common::{Reply, Service, paid};
use serde_json::{Value, json};

/// How long buyers may return orders, in milliseconds.
const RETURN_MS: u64 = 60_000;

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
        Self::priced(500).await
    }

    async fn priced(minor: i64) -> Self {
        let service =
            Service::start_with(|config, _| config.limits.buyer_return_ms = RETURN_MS).await;
        Self::on(service, minor).await
    }

    async fn on(service: Service, minor: i64) -> Self {
        let (operator, ann) = (service.operator(), service.token("ann", "claim"));
        let sale = service
            .sale(9, |body| {
                body["per_user_limit"] = json!(3);
                body["unit_price"]["amount"] = json!(minor);
            })
            .await;
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.post(&path, &ann, json!({ "quantity": 3 })).await;
        let order = format!("/v1/orders/{}", order.text("id"));
        Self {
            service,
            operator,
            ann,
            order,
            sale: sale.to_string(),
        }
    }

    async fn pay(&self) {
        self.pay_with(1_500).await;
    }

    async fn pay_with(&self, minor: i64) {
        let path = format!("{}/payment", self.order);
        let reply = self
            .service
            .post(&path, &self.operator, paid("p", minor))
            .await;
        assert_eq!(reply.text("outcome"), "paid", "{reply:?}");
    }

    /// Changes the ledger's file beside the service.
    fn change(&self, sql: &str) {
        let file = self.service.folder.path().join("qiang.db");
        let file = rusqlite::Connection::open(file).unwrap();
        assert!(file.execute(sql, []).unwrap() > 0, "{sql}");
    }

    async fn give(&self, key: &str, body: Value) -> Reply {
        let path = format!("{}/return", self.order);
        self.service
            .post_key(&path, &self.operator, key, body)
            .await
    }

    /// Total of refunds due for the order, in minor units.
    async fn due(&self) -> Value {
        let path = format!("{}/refunds", self.order);
        let seen = self.service.get(&path, &self.ann).await.json();
        assert_eq!(seen["settled"], json!(true));
        seen["due"]["amount"].clone()
    }

    async fn remaining(&self) -> Value {
        let path = format!("/v1/campaigns/{}/state", self.sale);
        self.service.get(&path, &self.ann).await.json()["remaining"].clone()
    }
}

fn units(quantity: impl Into<Value>) -> Value {
    json!({ "quantity": quantity.into() })
}

#[tokio::test]
async fn units_are_returned_once_per_key() {
    let case = Case::new().await;
    let early = case.give("a", units(1)).await;
    early.assert_problem(409, "order-conflict");
    case.pay().await;
    let path = format!("{}/return", case.order);
    let without_key = case.service.post(&path, &case.operator, units(1)).await;
    without_key.assert_problem(400, "bad-request");
    for (body, status, slug) in [
        (units(0), 422, "invalid"),
        (units(-1), 422, "invalid"),
        (json!({ "units": 1 }), 422, "invalid"),
        (units(4), 409, "return-exceeds-order"),
    ] {
        let refused = case.give("b", body.clone()).await;
        assert_eq!(refused.status, status, "{body} {refused:?}");
        refused.assert_problem(status, slug);
    }
    assert_eq!(case.remaining().await, json!(6));
    for _ in 0..3 {
        let returned = case.give("c", units(1)).await.json();
        let seen = [
            &returned["state"],
            &returned["returned_quantity"],
            &returned["refundable_payments"],
        ];
        assert_eq!(seen, [&json!("paid"), &json!(1), &json!(1)]);
    }
    let other = case.give("c", units(2)).await;
    other.assert_problem(422, "key-reused");
    assert_eq!(
        (case.due().await, case.remaining().await),
        (json!(500), json!(7))
    );

    let mut again = case.give("c", units(1)).await.json();
    assert_eq!(again["returned_quantity"], json!(1));
    let mine = case
        .service
        .get("/v1/accounts/ann/orders", &case.ann)
        .await
        .json();
    assert_eq!(mine["data"][0]["returned_quantity"], json!(1));
    let listed = format!("/v1/sales/{}/orders", case.sale);
    let listed = case.service.get(&listed, &case.operator).await.json();
    assert_eq!(listed["data"][0]["returned_quantity"], json!(1));

    again = case.give("d", units(1)).await.json();
    assert_eq!(again["returned_quantity"], json!(2));
    assert_eq!(case.due().await, json!(1_000));
    for _ in 0..2 {
        let rest = case.service.act(&path, &case.operator).await.json();
        assert_eq!(
            (&rest["state"], &rest["returned_quantity"]),
            (&json!("returned"), &json!(3))
        );
    }
    let late = case.give("e", units(1)).await;
    late.assert_problem(409, "order-conflict");
    assert_eq!(
        (case.due().await, case.remaining().await),
        (json!(1_500), json!(9))
    );
    let path = format!(
        "/v1/operation-log?subject={}",
        &case.order["/v1/orders/".len()..]
    );
    let actions = case.service.get(&path, &case.operator).await.json();
    let of_returns = actions["data"].as_array().into_iter().flatten();
    let of_returns: Vec<_> = of_returns
        .filter(|action| action["action"] == "return" && action["detail"] == units(1))
        .collect();
    assert!(!of_returns.is_empty(), "{actions}");
    case.service.stop().await;
}

/// Buyer and seller use a key of the same name: these are two keys.
#[tokio::test]
async fn keys_of_two_callers_are_two_returns() {
    let case = Case::new().await;
    case.pay().await;
    let path = format!("{}/return", case.order);
    for (token, returned) in [(&case.operator, 1), (&case.ann, 2), (&case.ann, 2)] {
        let reply = case.service.post_key(&path, token, "k", units(1)).await;
        let seen = reply.json()["returned_quantity"].clone();
        assert_eq!(seen, json!(returned), "{reply:?}");
    }
    // After the return period the buyer cannot return more. A retry gets its first answer.
    assert_eq!(case.due().await, json!(1_000));
    case.service.clock.advance_ms(RETURN_MS as i64);
    for (key, status) in [("k", 200), ("l", 403)] {
        let late = case.service.post_key(&path, &case.ann, key, units(1)).await;
        assert_eq!(late.status, status, "{late:?}");
    }
    case.service.stop().await;
}

/// The ledger lags: it has the key of the request, and not the return. The retry is answered as the request was.
#[tokio::test]
async fn a_late_retry_needs_no_settled_return() {
    let case = Case::new().await;
    case.pay().await;
    let path = format!("{}/return", case.order);
    let give = async |key: &str| case.service.post_key(&path, &case.ann, key, units(1)).await;
    let first = give("k").await.json();
    assert_eq!(case.due().await, json!(500));
    case.change("DELETE FROM order_returns");
    case.service.clock.advance_ms(RETURN_MS as i64);
    let late = give("k").await;
    assert_eq!((late.status, late.json()), (200, first), "{late:?}");
    give("l").await.assert_problem(403, "return-period-over");
    case.service.stop().await;
}

/// A log whose first look, once it has a file, comes after the ledger in the file received the missing returns.
struct LaterSettled {
    log: Arc<dyn EventLog>,
    file: Arc<OnceLock<PathBuf>>,
}

#[async_trait]
impl EventLog for LaterSettled {
    fn partitions(&self) -> Vec<PartitionId> {
        self.log.partitions()
    }

    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError> {
        self.log.epoch(partition).await
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        if let Some(file) = self.file.get() {
            let file = rusqlite::Connection::open(file).unwrap();
            file.execute("UPDATE order_returns SET key = ltrim(key, '~')", [])
                .unwrap();
        }
        self.log.head(partition).await
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        self.log.read(partition, after, limit).await
    }
}

/// A ledger was restored: it has forgotten the keys, and receives the returns while a retry of one of them runs. The
/// order has no unit left by then. The retry is answered as the request was.
#[tokio::test]
async fn a_retry_finds_a_return_that_is_settled_meanwhile() {
    for (late_ms, is_buyer) in [(0, false), (RETURN_MS as i64, true)] {
        let file = Arc::new(OnceLock::new());
        let service = Service::start_with(|config, backend| {
            config.limits.buyer_return_ms = RETURN_MS;
            let (log, file) = (Arc::clone(&backend.ports.log), Arc::clone(&file));
            backend.ports.log = Arc::new(LaterSettled { log, file });
        });
        let case = Case::on(service.await, 500).await;
        case.pay().await;
        let token = if is_buyer { &case.ann } else { &case.operator };
        let path = format!("{}/return", case.order);
        let give = async |key: &str| case.service.post_key(&path, token, key, units(1)).await;
        for key in ["a", "b", "c"] {
            let given = give(key).await;
            assert_eq!(given.status, 200, "{given:?}");
        }
        assert_eq!(case.due().await, json!(1_500));
        case.change("DELETE FROM idempotency_keys");
        case.change("UPDATE order_returns SET key = '~' || key");
        case.service.clock.advance_ms(late_ms);
        file.set(case.service.folder.path().join("qiang.db"))
            .unwrap();
        let again = give("a").await;
        assert_eq!(again.status, 200, "{late_ms}: {again:?}");
        assert_eq!(again.json()["returned_quantity"], json!(3));
        assert_eq!(case.due().await, json!(1_500));
        case.service.stop().await;
    }
}

/// A return of one unit needs room for what it owes, and not for what the order was paid with. A retry needs none.
#[tokio::test]
async fn a_part_needs_room_for_its_own_money() {
    const PRICE: i64 = 500_000_000_000;
    let case = Case::priced(PRICE).await;
    case.pay_with(3 * PRICE).await;
    assert_eq!(case.due().await, json!(0));
    let room = |minor: i64| {
        let least = minor - qiang_core::money::MONEY_MINOR_MAX;
        let seller = "(SELECT owner FROM campaigns)";
        case.change(&format!(
            "UPDATE accounts SET balance = {least} WHERE purpose = 'user' AND owner = {seller}"
        ));
    };
    room(PRICE);
    let returned = case.give("a", units(1)).await;
    assert_eq!(returned.status, 200, "{returned:?}");
    assert_eq!(case.due().await, json!(PRICE));
    case.give("b", units(1))
        .await
        .assert_problem(422, "invalid");
    case.change("DELETE FROM idempotency_keys");
    let again = case.give("a", units(1)).await;
    assert_eq!(again.status, 200, "{again:?}");
    room(2 * PRICE);
    let path = format!("{}/return", case.order);
    let rest = case.service.act(&path, &case.operator).await;
    assert_eq!(rest.text("state"), "returned", "{rest:?}");
    case.service.stop().await;
}
