//! Log of webhook deliveries, redeliveries, and changes of webhooks.

use serde_json::{Value, json};

use crate::node::http::{
    common::{Service, call},
    receiver::Receiver,
    webhook_orders::{arrive, holds_long, pay, types_of},
    webhooks::{adjust, get, order, until, webhook},
};

async fn attempts(service: &Service, path: &str, query: &str) -> Vec<Value> {
    let page = get(service, &format!("{path}/deliveries?{query}")).await;
    page["data"].as_array().unwrap().clone()
}

/// The log has each attempt with the endpoint's answer. Filters select by order, event and state.
#[tokio::test]
async fn each_attempt_is_in_the_log() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let filter = json!({"types": ["order.held", "order.paid"]});
    let path = webhook(&service, &receiver, filter).await;
    let sale = service.sale(99, holds_long).await;
    receiver.refuse(Some("u0"));
    let refused = order(&service, &sale, "u0").await.text("id");
    let accepted = order(&service, &sale, "u1").await.text("id");
    arrive(&receiver, 1).await;
    until("both attempts are in the log", async || {
        attempts(&service, &path, "").await.len() == 2
    })
    .await;
    receiver.refuse(None);
    until("the refused event arrives", async || {
        service.clock.advance_ms(1_000);
        receiver.count() == 2
    })
    .await;
    until("three attempts are in the log", async || {
        attempts(&service, &path, "").await.len() == 3
    })
    .await;

    let of_order = attempts(&service, &path, &format!("order={refused}")).await;
    assert_eq!(of_order.len(), 2, "{of_order:?}");
    let (last, first) = (&of_order[0], &of_order[1]);
    let event = first["event"].as_str().unwrap();
    for (name, value) in [
        ("type", json!("order.held")),
        ("campaign", json!(sale)),
        ("order", json!(refused)),
        ("attempt", json!(1)),
        ("state", json!("failed")),
        ("response_status", json!(503)),
        ("response_body", json!("the shop is closed")),
        ("error", json!("status 503")),
    ] {
        assert_eq!(first[name], value, "{first}");
    }
    assert!(first["next_attempt_at"].is_string() && first["duration_ms"].is_u64());
    for (name, value) in [
        ("event", json!(event)),
        ("attempt", json!(2)),
        ("state", json!("delivered")),
        ("response_status", json!(200)),
        ("error", Value::Null),
        ("next_attempt_at", Value::Null),
    ] {
        assert_eq!(last[name], value, "{last}");
    }
    assert_eq!(
        attempts(&service, &path, &format!("event={event}")).await,
        of_order
    );
    let delivered = attempts(&service, &path, "state=delivered").await;
    let orders: Vec<_> = delivered
        .iter()
        .map(|it| it["order"].as_str().unwrap())
        .collect();
    assert_eq!(orders, [&refused, &accepted]);
    let failed = attempts(&service, &path, "state=failed").await;
    assert_eq!(failed, std::slice::from_ref(first));

    // Page after page, each attempt is listed once.
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = get(&service, &format!("{path}/deliveries?limit=1{next}")).await;
        all.extend(page["data"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&after={cursor}"),
            None => break,
        }
    }
    assert_eq!(all, attempts(&service, &path, "").await);
    let operator = service.operator();
    let both = format!("{path}/deliveries?event={event}&order={refused}");
    service
        .get(&both, &operator)
        .await
        .assert_problem(400, "bad-request");
    let unknown = format!("{path}/deliveries?state=lost");
    service
        .get(&unknown, &operator)
        .await
        .assert_problem(400, "bad-request");
    service.stop().await;
}

/// An event that was given up is in the log, and is delivered once more by a request.
#[tokio::test]
async fn events_that_were_given_up_are_redelivered() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({"types": ["order.held"]})).await;
    let sale = service.sale(99, holds_long).await;
    receiver.refuse(Some("u0"));
    order(&service, &sale, "u0").await;
    until("it is refused", async || {
        get(&service, &path).await["waiting"] == 1
    })
    .await;
    service.clock.advance_ms(30_000);
    order(&service, &sale, "u1").await;
    arrive(&receiver, 1).await;
    service.clock.advance_ms(31_000);
    until("it is given up", async || {
        attempts(&service, &path, "state=given_up").await.len() == 1
    })
    .await;
    assert_eq!(get(&service, &path).await["waiting"], 0);
    receiver.refuse(None);

    let redeliver = async |key: &str, body: Value| {
        let (path, token) = (format!("{path}/redeliver"), service.operator());
        let headers = [("Idempotency-Key", key)];
        call(
            service.addr,
            "POST",
            &path,
            Some(&token),
            &headers,
            Some(body),
        )
        .await
    };
    for body in [
        json!({}),
        json!({"event": "evt_0_1_0", "given_up_since": "2026-01-01T00:00:00Z"}),
    ] {
        redeliver("bad", body).await.assert_problem(422, "invalid");
    }
    let unknown = redeliver("unknown", json!({"event": "evt_0_1_0"})).await;
    unknown.assert_problem(404, "not-found");
    let since = json!({"given_up_since": "2026-01-01T00:00:00Z"});
    let reply = redeliver("all", since.clone()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    arrive(&receiver, 2).await;
    assert_eq!(types_of(&receiver, "u0"), ["order.held"]);
    until("the delivery is in the log", async || {
        attempts(&service, &path, "state=delivered").await.len() == 2
    })
    .await;
    // It was delivered since, so a further request sends nothing. Neither does a retry of the first one.
    for key in ["all", "later"] {
        assert_eq!(redeliver(key, since.clone()).await.status, 200);
    }
    assert_eq!(get(&service, &path).await["waiting"], 0);
    // One event is sent again in any state.
    let event = attempts(&service, &path, "state=given_up").await[0]["event"].clone();
    let reply = redeliver("one", json!({ "event": event })).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    until("it arrives again", async || {
        receiver.received().duplicates == 1
    })
    .await;
    service.stop().await;
}

/// A disabled webhook receives nothing. Once it is enabled, it receives the events since then. A new filter and a new
/// URL apply at once.
#[tokio::test]
async fn a_webhook_is_changed() {
    let service = Service::start_with(adjust).await;
    let (old, new) = (Receiver::start().await, Receiver::start().await);
    let path = webhook(&service, &old, json!({"types": ["order.held"]})).await;
    let operator = service.operator();
    let change = async |body: Value| {
        let reply = service.patch(&path, &operator, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let changed = change(json!({"enabled": false})).await;
    assert_eq!(changed["status"], "disabled");
    assert!(changed["disabled_at"].is_string() && changed["secret"].is_null());
    let sale = service.sale(99, holds_long).await;
    let bought = order(&service, &sale, "u0").await.text("id");
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    assert_eq!(old.requests(), 0);
    let changed = change(json!({"enabled": true})).await;
    assert_eq!(changed["status"], "ok");
    arrive(&old, 1).await;

    // Another URL, while an event waits for a retry.
    old.answer_all(500);
    order(&service, &sale, "u1").await;
    until("it waits", async || {
        get(&service, &path).await["waiting"] == 1
    })
    .await;
    new.shares_secret(&old);
    let changed = change(json!({"url": new.url(), "types": ["order.held", "order.paid"]})).await;
    assert_eq!(changed["url"], new.url());
    arrive(&new, 1).await;
    assert_eq!(types_of(&new, "u1"), ["order.held"]);
    pay(&service, &bought, "p0").await;
    arrive(&new, 2).await;
    assert_eq!(types_of(&new, "u0"), ["order.paid"]);

    // A waiting event that the new filter refuses is dropped.
    new.answer_all(500);
    order(&service, &sale, "u2").await;
    until("it waits", async || {
        get(&service, &path).await["waiting"] == 1
    })
    .await;
    change(json!({"types": ["order.paid"]})).await;
    new.answer_all(200);
    until("none waits", async || {
        service.clock.advance_ms(1_000);
        get(&service, &path).await["waiting"] == 0
    })
    .await;
    assert_eq!(new.count(), 2);

    // A repetition under a key changes nothing.
    let keyed = async |body: Value| {
        let headers = [("Idempotency-Key", "k1")];
        call(
            service.addr,
            "PATCH",
            &path,
            Some(&operator),
            &headers,
            Some(body),
        )
        .await
    };
    let owner = json!({"owner": "shop"});
    assert_eq!(keyed(owner.clone()).await.json()["owner"], "shop");
    assert_eq!(change(json!({"owner": null})).await["owner"], Value::Null);
    let again = keyed(owner).await;
    assert_eq!(
        (again.status, again.json()["owner"].clone()),
        (200, Value::Null)
    );
    for (body, pointer) in [
        (json!({}), Value::Null),
        (json!({"types": ["order.lost"]}), json!("#/types")),
        (json!({"url": "ftp://hooks.example/"}), json!("#/url")),
    ] {
        let reply = service.patch(&path, &operator, body).await;
        reply.assert_problem(422, "invalid");
        assert_eq!(reply.json()["errors"][0]["pointer"], pointer, "{reply:?}");
    }
    let missing = "/v1/webhooks/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let reply = service
        .patch(missing, &operator, json!({"enabled": true}))
        .await;
    reply.assert_problem(404, "not-found");
    let log = service
        .get(
            &format!("/v1/operation-log?subject={}", &path[13..]),
            &operator,
        )
        .await;
    let log = log.json();
    let actions = log["data"].as_array().unwrap();
    let changes = actions.iter().filter(|it| it["action"] == "change");
    assert_eq!(changes.count(), 6, "{log}");
    assert!(
        !log.to_string().contains("/hooks"),
        "the log has the path of a URL"
    );
    service.stop().await;
}
