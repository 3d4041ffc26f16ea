//! A seller extends the hold of an order, from the request to the payment in the extension.

use crate::node::http::common::{Reply, Service, paid};
use serde_json::{Value, json};

/// A sale of `sam` with a held order of `ann`.
struct Case {
    service: Service,
    order: String,
    sam: String,
    ann: String,
}

impl Case {
    async fn new() -> Self {
        let service = Service::start().await;
        let own = |body: &mut Value| body["seller"] = json!("sam");
        let sale = service.sale(1, own).await;
        let sam = service.token("sam", "campaigns:write");
        let ann = service.token("ann", "claim");
        let path = format!("/v1/sales/{sale}/orders");
        let bought = service.post(&path, &ann, json!({ "quantity": 1 })).await;
        let order = format!("/v1/orders/{}", bought.text("id"));
        Self {
            service,
            order,
            sam,
            ann,
        }
    }

    async fn extend(&self, token: &str, key: &str, seconds: i64) -> Reply {
        let path = format!("{}/hold-extension", self.order);
        let body = json!({ "seconds": seconds });
        self.service.post_key(&path, token, key, body).await
    }

    /// State, end of the hold and extension, as the buyer sees them.
    async fn seen(&self) -> [Value; 3] {
        let seen = self.service.get(&self.order, &self.ann).await.json();
        ["state", "hold_until", "hold_extension_seconds"].map(|name| seen[name].clone())
    }

    async fn pay(&self) -> Reply {
        let path = format!("{}/payment", self.order);
        let operator = self.service.operator();
        self.service.post(&path, &operator, paid("p", 500)).await
    }
}

#[tokio::test]
async fn a_seller_extends_a_hold_once_and_the_buyer_pays_in_it() {
    let case = Case::new().await;
    let [state, before, none] = case.seen().await;
    assert_eq!((&state, &none), (&json!("held"), &Value::Null));
    let extended = case.extend(&case.sam, "k", 60).await;
    assert_eq!(extended.status, 200, "{extended:?}");
    let [state, until, seconds] = case.seen().await;
    assert_eq!((&state, &seconds), (&json!("held"), &json!(60)));
    assert_eq!(extended.json()["hold_until"], until);
    assert!(before.as_str() < until.as_str(), "{before} {until}");
    // The same key and the same extension are answered. Another extension is refused.
    let again = case.extend(&case.sam, "k", 60).await;
    assert_eq!((again.status, again.json()), (200, extended.json()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(case.extend(&case.sam, "l", 60).await.status, 200);
    let other = case.extend(&case.sam, "m", 30).await;
    other.assert_problem(409, "hold-extended");
    let reused = case.extend(&case.sam, "k", 30).await;
    reused.assert_problem(422, "key-reused");
    // At the old end the order is still held, and a payment pays it.
    case.service.clock.advance_ms(90_000);
    case.service.reconcile();
    assert_eq!(case.seen().await[0], json!("held"));
    let paid = case.pay().await;
    assert_eq!(paid.json()["outcome"], json!("paid"), "{paid:?}");
    assert_eq!(case.seen().await, [json!("paid"), until, seconds]);
    let late = case.extend(&case.sam, "n", 30).await;
    late.assert_problem(409, "order-conflict");
    // The operation log has the extension once.
    let admin = case.service.token("root", "read:any");
    let id = case.order.trim_start_matches("/v1/orders/");
    let path = format!("/v1/operation-log?subject={id}");
    let actions = case.service.get(&path, &admin).await.json();
    let actions = actions["data"].as_array().unwrap().iter();
    let mut kinds: Vec<_> = actions.map(|it| it["action"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["extend_hold", "pay"]);
}

#[tokio::test]
async fn an_extended_hold_ends_at_its_new_end() {
    let case = Case::new().await;
    case.service.clock.advance_ms(59_000);
    assert_eq!(case.extend(&case.sam, "k", 30).await.status, 200);
    case.service.clock.advance_ms(30_000);
    case.service.reconcile();
    assert_eq!(case.seen().await[0], json!("held"));
    let case = Case {
        service: case.service.restart().await,
        ..case
    };
    assert_eq!(case.seen().await[2], json!(30));
    // The first report of payments since the start is awaited before an order expires.
    case.service.clock.advance_ms(120_000);
    for _ in 0..100 {
        case.service.reconcile();
        if case.seen().await[0] == json!("expired") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{:?}", case.seen().await);
}

#[tokio::test]
async fn extensions_need_the_seller_and_a_length_within_the_bound() {
    let case = Case::new().await;
    let stranger = case.service.token("zoe", "campaigns:write");
    case.extend(&stranger, "a", 30)
        .await
        .assert_problem(404, "not-found");
    case.extend(&case.ann, "b", 30)
        .await
        .assert_problem(403, "forbidden");
    let unscoped = case.service.token("sam", "claim");
    case.extend(&unscoped, "c", 30)
        .await
        .assert_problem(403, "forbidden");
    for seconds in [0, 61] {
        let refused = case.extend(&case.sam, "d", seconds).await;
        refused.assert_problem(422, "invalid");
    }
    assert_eq!(case.seen().await[2], Value::Null);
    let admin = case.service.token("root", "admin read:any");
    assert_eq!(case.extend(&admin, "e", 60).await.status, 200);
}
