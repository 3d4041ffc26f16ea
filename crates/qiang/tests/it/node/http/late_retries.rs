//! Late retries: a retry under an idempotency key gets the first answer, although the object was changed since.

use serde_json::{Value, json};

use crate::node::http::common::{Reply, Service, call, paid};

/// A request under a key: method, path and body.
type Keyed = (&'static str, String, Option<Value>);

impl Service {
    async fn keyed(&self, (method, path, body): &Keyed, key: &str) -> Reply {
        let headers = [("Idempotency-Key", key)];
        let token = self.operator();
        call(
            self.addr,
            method,
            path,
            Some(&token),
            &headers,
            body.clone(),
        )
        .await
    }

    /// Deletes stored answers, as if the node had died before it stored them.
    pub(crate) fn forget_answers(&self) {
        let file = rusqlite::Connection::open(self.folder.path().join("qiang.db")).unwrap();
        let forget = "UPDATE idempotency_keys SET answer = NULL WHERE scope <> 'payment'";
        assert!(file.execute(forget, []).unwrap() > 0);
    }

    async fn field(&self, path: &str, pointer: &str) -> Value {
        let read = self.get(path, &self.operator()).await;
        assert_eq!(read.status, 200, "{read:?}");
        read.json().pointer(pointer).cloned().unwrap_or_default()
    }
}

/// An answer without the id of its request.
fn told(reply: &Reply) -> (u16, Value) {
    let mut body = reply.json();
    body["request_id"] = Value::Null;
    (reply.status, body)
}

fn post(path: impl Into<String>) -> Keyed {
    ("POST", path.into(), None)
}

#[tokio::test]
async fn a_late_retry_repeats_no_old_change() {
    let service = Service::start().await;
    let price = |amount: i64| json!({ "unit_price": { "amount": amount, "currency": "CNY" } });
    let act = |verb: &'static str| move |id: &str| post(format!("/v1/campaigns/{id}/{verb}"));
    let change =
        |body: Value| move |id: &str| ("PATCH", format!("/v1/sales/{id}"), Some(body.clone()));
    type Make = Box<dyn Fn(&str) -> Keyed>;
    let cases: [(&str, Make, Make, &str, Value); 5] = [
        (
            "price",
            Box::new(change(price(10))),
            Box::new(change(price(100))),
            "/unit_price/amount",
            json!(100),
        ),
        (
            "stock",
            Box::new(change(json!({ "stock": 7 }))),
            Box::new(change(json!({ "stock": 9 }))),
            "/stock",
            json!(9),
        ),
        (
            "title",
            Box::new(change(json!({ "title": "old" }))),
            Box::new(change(json!({ "title": "new" }))),
            "/title",
            json!("new"),
        ),
        (
            "pause",
            Box::new(act("pause")),
            Box::new(act("resume")),
            "/state/phase",
            json!("live"),
        ),
        (
            "resume",
            Box::new(act("resume")),
            Box::new(act("pause")),
            "/state/phase",
            json!("paused"),
        ),
    ];
    for (name, first, then, pointer, after) in cases {
        let sale = service.sale(5, |_| ()).await;
        let path = format!("/v1/sales/{sale}");
        // A key is valid for all campaigns of a route.
        let keys = [format!("{name}-first"), format!("{name}-then")];
        let made = service.keyed(&first(&sale), &keys[0]).await;
        assert_eq!(made.status, 200, "{name}: {made:?}");
        let changed = service.keyed(&then(&sale), &keys[1]).await;
        assert_eq!(changed.status, 200, "{name}: {changed:?}");
        for _ in 0..2 {
            let again = service.keyed(&first(&sale), &keys[0]).await;
            assert_eq!(told(&again), told(&made), "{name}");
            assert_eq!(again.header("idempotency-replayed"), "true", "{name}");
            assert_eq!(service.field(&path, pointer).await, after, "{name}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_refused_command_stays_refused_under_its_key() {
    let service = Service::start().await;
    let operator = service.operator();
    let sale = service.sale(5, |_| ()).await;
    let token = service.token("sam", "claim");
    let made = service
        .act(&format!("/v1/sales/{sale}/orders"), &token)
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("/v1/orders/{}", made.text("id"));

    // An unpaid order cannot be returned. After a payment, the retry still returns nothing.
    let giving_back = post(format!("{path}/return"));
    let refused = service.keyed(&giving_back, "r").await;
    refused.assert_problem(409, "order-conflict");
    let payment = format!("{path}/payment");
    assert_eq!(
        service
            .post(&payment, &operator, paid("p", 500))
            .await
            .status,
        200
    );
    let again = service.keyed(&giving_back, "r").await;
    assert_eq!(told(&again), told(&refused));
    assert_eq!(service.field(&path, "/state").await, json!("paid"));
    assert_eq!(service.keyed(&giving_back, "r2").await.status, 200);

    // An open campaign cannot be archived. After its close, the retry still archives nothing.
    let archive = post(format!("/v1/campaigns/{sale}/archive"));
    let refused = service.keyed(&archive, "a").await;
    refused.assert_problem(409, "phase-conflict");
    let close = post(format!("/v1/campaigns/{sale}/close"));
    assert_eq!(service.keyed(&close, "c").await.status, 200);
    assert_eq!(told(&service.keyed(&archive, "a").await), told(&refused));
    let sale_path = format!("/v1/sales/{sale}");
    assert_eq!(service.field(&sale_path, "/archived_at").await, Value::Null);
    assert_eq!(service.keyed(&archive, "a2").await.status, 200);

    // A stock below the granted units is refused for good, even if it would be possible later.
    let sale = service.sale(5, |_| ()).await;
    let made = service
        .act(&format!("/v1/sales/{sale}/orders"), &token)
        .await;
    let patch = |stock: u64| -> Keyed {
        let body = json!({ "stock": stock });
        ("PATCH", format!("/v1/sales/{sale}"), Some(body))
    };
    let bought = format!("/v1/sales/{sale}/orders");
    let ann = service.token("ann", "claim");
    assert_eq!(service.act(&bought, &ann).await.status, 201);
    let refused = service.keyed(&patch(1), "s").await;
    refused.assert_problem(409, "stock-granted");
    let cancel = format!("/v1/orders/{}/cancellation", made.text("id"));
    assert_eq!(service.act(&cancel, &token).await.status, 200);
    assert_eq!(told(&service.keyed(&patch(1), "s").await), told(&refused));
    let path = format!("/v1/sales/{sale}");
    assert_eq!(service.field(&path, "/stock").await, json!(5));
    service.stop().await;
}

/// A node that dies between effect and answer leaves a bound key without an answer. The retry says that the change was
/// made, and undoes no later one.
#[tokio::test]
async fn a_key_without_an_answer_undoes_nothing() {
    let service = Service::start().await;
    let price = |amount: i64| json!({ "unit_price": { "amount": amount, "currency": "CNY" } });
    let mut retries = Vec::new();
    let sale = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{sale}");
    let patch = |body: Value| ("PATCH", path.clone(), Some(body));
    let act = |verb: &str| post(format!("/v1/campaigns/{sale}/{verb}"));
    for (name, first, then, pointer, after) in [
        (
            "price",
            patch(price(10)),
            patch(price(100)),
            "/unit_price/amount",
            json!(100),
        ),
        (
            "stock",
            patch(json!({ "stock": 7 })),
            patch(json!({ "stock": 9 })),
            "/stock",
            json!(9),
        ),
        (
            "title",
            patch(json!({ "title": "old" })),
            patch(json!({ "title": "new" })),
            "/title",
            json!("new"),
        ),
        (
            "pause",
            act("pause"),
            act("resume"),
            "/phase",
            json!("live"),
        ),
    ] {
        for (request, key) in [(&first, "first"), (&then, "then")] {
            let made = service.keyed(request, &format!("{name}-{key}")).await;
            assert_eq!(made.status, 200, "{name}: {made:?}");
        }
        retries.push((name, first, pointer, after));
    }
    // Repeated closes have the same effect, so the retry is answered.
    let close = post(format!(
        "/v1/campaigns/{}/close",
        service.sale(5, |_| ()).await
    ));
    assert_eq!(service.keyed(&close, "c").await.status, 200);
    service.forget_answers();
    let service = service.restart().await;
    let before = service.get(&path, &service.operator()).await.json();
    for (name, request, pointer, after) in &retries {
        for _ in 0..2 {
            let again = service.keyed(request, &format!("{name}-first")).await;
            assert_eq!(again.status, 200, "{name}: {again:?}");
            assert_eq!(again.header("idempotency-replayed"), "true", "{name}");
            assert_eq!(again.json().pointer(pointer), Some(after), "{name}");
        }
    }
    let now = service.get(&path, &service.operator()).await.json();
    for pointer in ["/unit_price", "/stock", "/title", "/state/phase"] {
        assert_eq!(now.pointer(pointer), before.pointer(pointer));
    }
    let again = service.keyed(&close, "c").await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    service.stop().await;
}

/// The node dies before the effect, and another change follows. The retry is refused, and stays refused. If a repair
/// may have lost the record of the effect since, the result is unknown.
#[tokio::test]
async fn a_key_without_an_effect_undoes_nothing() {
    let service = Service::start().await;
    let sale = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{sale}");
    let stock = |stock: u64| ("PATCH", path.clone(), Some(json!({ "stock": stock })));
    for (request, key) in [(stock(7), "k"), (stock(8), "l"), (stock(9), "m")] {
        assert_eq!(service.keyed(&request, key).await.status, 200);
    }
    service.forget_answers();
    // A stop settles all entries.
    let service = service.restart().await;
    let file = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    assert_eq!(file.execute("DELETE FROM made_changes", []), Ok(3));
    let refused = service.keyed(&stock(7), "k").await;
    refused.assert_problem(409, "superseded");
    assert_eq!(told(&service.keyed(&stock(7), "k").await), told(&refused));
    file.execute(
        "INSERT INTO repairs (partition, epoch, follows, at, lost_from, lost_to, unnamed, reason, upto) \
         VALUES (0, 'b', 'a', 9223372036854, 1, 1, 0, 'by the test', 1)",
        [],
    )
    .unwrap();
    drop(file);
    for _ in 0..2 {
        let unknown = service.keyed(&stock(8), "l").await;
        unknown.assert_problem(409, "key-pending");
    }
    assert_eq!(service.field(&path, "/stock").await, json!(9));
    service.stop().await;
}

#[tokio::test]
async fn a_deposit_is_credited_once_after_its_key_is_forgotten() {
    let service = Service::start().await;
    let teller = service.token("pay", "deposit");
    let path = "/v1/accounts/ann/deposits";
    let deposit = async |service: &Service, key: &str, reference: &str, amount: i64| {
        let body = json!({ "amount": amount, "currency": "CNY", "reference": reference });
        let teller = service.token("pay", "deposit");
        service.post_key(path, &teller, key, body).await
    };
    let made = deposit(&service, "k", "psp-1", 500).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("reference"), "psp-1");
    let location = made.header("location").to_owned();
    assert_eq!(location, format!("{path}/{}", made.text("id")));
    // The scope that made the deposit may read it.
    let read = service.get(&location, &teller).await;
    assert_eq!((read.status, read.text("id")), (200, made.text("id")));
    // Deletes the key, as if it were too old.
    let file = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    file.execute("DELETE FROM idempotency_keys", []).unwrap();
    drop(file);
    for key in ["k", "l"] {
        let again = deposit(&service, key, "psp-1", 500).await;
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.text("id"), made.text("id"));
    }
    deposit(&service, "m", "psp-1", 501)
        .await
        .assert_problem(409, "reference-used");
    assert_eq!(deposit(&service, "n", "psp-2", 500).await.status, 201);
    assert_eq!(service.balance("ann").await, 1_000);
    let service = service.restart().await;
    assert_eq!(deposit(&service, "o", "psp-1", 500).await.status, 200);
    assert_eq!(service.balance("ann").await, 1_000);
    service.stop().await;
}
