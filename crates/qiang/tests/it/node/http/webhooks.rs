//! Webhooks over the API: allowed endpoint URLs, delivery, and endpoints that do not answer.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::node::http::common::{Reply, Service, call, paid};
use qiang::{Backend, config::NodeConfig};
use serde_json::{Value, json};

use crate::node::http::receiver::{Answer, Receiver};

/// Maximum wait. No step takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn adjust(config: &mut NodeConfig, _: &mut Backend) {
    let webhooks = &mut config.webhooks;
    (webhooks.allow_private, webhooks.allow_private_sellers) = (true, true);
    // This timeout is in real time, so it must not end on a slow machine.
    webhooks.timeout_ms = 30_000;
    (webhooks.retry_ms, webhooks.retry_ms_max) = (100, 1_000);
    webhooks.disable_after_ms = 60_000;
}

pub(super) async fn until(what: &str, look: impl AsyncFn() -> bool) {
    let over = Instant::now() + PATIENCE;
    while !look().await {
        assert!(Instant::now() < over, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates a webhook for a receiver. Returns its path.
pub(super) async fn webhook(service: &Service, receiver: &Receiver, filter: Value) -> String {
    let mut body = filter;
    body["url"] = json!(receiver.url());
    let reply = service
        .post("/v1/webhooks", &service.operator(), body)
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    receiver.knows(&reply.text("secret"));
    let path = format!("/v1/webhooks/{}", reply.text("id"));
    assert_eq!(reply.header("location"), path);
    path
}

pub(super) async fn get(service: &Service, path: &str) -> Value {
    let reply = service.get(path, &service.operator()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

pub(super) async fn order(service: &Service, sale: &str, user: &str) -> Reply {
    let path = format!("/v1/sales/{sale}/orders");
    let reply = service.act(&path, &service.token(user, "claim")).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply
}

/// Recorded events, read two at a time: ids and bodies.
async fn recorded(service: &Service) -> Vec<(String, Value)> {
    let (mut all, mut path) = (Vec::new(), "/v1/events?limit=2".to_owned());
    loop {
        let page = get(service, &path).await;
        let events = page["data"].as_array().unwrap();
        let next = page["next"].as_str().unwrap();
        path = format!("/v1/events?limit=2&after={next}");
        if events.is_empty() {
            // The cursor stays where later events follow, and no link leads there.
            let end = service.get(&path, &service.operator()).await;
            assert_eq!(
                (&end.json()["next"], end.header("link")),
                (&page["next"], "")
            );
            return sorted(all);
        }
        for event in events {
            let mut body = event.clone();
            let id = body.as_object_mut().unwrap().remove("id").unwrap();
            all.push((id.as_str().unwrap().to_owned(), body));
        }
    }
}

fn sorted(mut events: Vec<(String, Value)>) -> Vec<(String, Value)> {
    events.sort_by(|one, other| one.0.cmp(&other.0));
    events
}

#[tokio::test]
async fn an_endpoint_is_told_what_it_wants() {
    let service = Service::start_with(adjust).await;
    let (all, some) = (Receiver::start().await, Receiver::start().await);
    webhook(&service, &all, json!({})).await;
    let wanted = json!({"types": ["order.paid", "campaign.closed"], "owner": "olga"});
    webhook(&service, &some, wanted).await;
    let sale = service.sale(5, |_| ()).await;
    let packet = service.red_packet(3, |_| ()).await;
    let bought = order(&service, &sale, "ann").await.json();
    order(&service, &sale, "bob").await;
    let path = format!("/v1/orders/{}", bought["id"].as_str().unwrap());
    let operator = service.operator();
    let reply = service
        .post(&format!("{path}/payment"), &operator, paid("p1", 500))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let path = format!("/v1/red-packets/{packet}/claims");
    let share = service
        .act(&path, &service.token("ann", "claim"))
        .await
        .json();
    for id in [&sale, &packet] {
        let path = format!("/v1/campaigns/{id}/close");
        assert_eq!(service.act(&path, &operator).await.status, 200);
    }
    until("all events are delivered", async || {
        all.count() == 8 && some.count() == 2
    })
    .await;
    let told = all.received();
    let data = |kind: &str, campaign: &str| {
        let mut events = told.events.iter().map(|(_, body)| body);
        let found = events.find(|it| it["type"] == kind && it["data"]["campaign"] == campaign);
        found.unwrap_or_else(|| panic!("no {kind}: {told:?}"))["data"].clone()
    };
    let money = |amount: i64| json!({"amount": amount, "currency": "CNY"});
    let held = json!({"campaign": sale, "kind": "sale", "owner": "olga", "number": 1, "order": bought["id"],
        "user": "ann", "quantity": 1, "amount": money(500)});
    assert_eq!(data("order.held", &sale), held);
    let mut paid = held;
    paid["payment"] = json!("p1");
    assert_eq!(data("order.paid", &sale), paid);
    let expected = json!({"campaign": packet, "kind": "red_packet", "owner": "sam", "number": 1, "user": "ann",
        "quantity": 1, "amount": share["amount"]});
    assert_eq!(data("share.granted", &packet), expected);
    let rest = 10_000 - share["amount"]["amount"].as_i64().unwrap();
    let expected = json!({"campaign": packet, "kind": "red_packet", "owner": "sam", "returned": 2,
        "refunded": money(rest)});
    assert_eq!(data("campaign.closed", &packet), expected);
    let expected = json!({"campaign": sale, "kind": "sale", "owner": "olga", "returned": 3});
    assert_eq!(data("campaign.closed", &sale), expected);
    assert_eq!(some.received().types(), ["order.paid", "campaign.closed"]);
    assert_eq!(recorded(&service).await, sorted(told.events));
    service.stop().await;
}

/// An endpoint receives the amount paid for an order and the amount refunded, each in the currency of the payment.
#[tokio::test]
async fn an_endpoint_is_told_of_another_amount() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let types = json!(["order.held", "order.refund_due", "order.refunded"]);
    webhook(&service, &receiver, json!({ "types": types })).await;
    let sale = service.sale(5, |_| ()).await;
    let bought = order(&service, &sale, "ann").await;
    let (path, operator) = (
        format!("/v1/orders/{}", bought.text("id")),
        service.operator(),
    );
    let dollars = |amount: i64| json!({"amount": amount, "currency": "USD"});
    let body = |reference: &str| json!({"reference": reference, "amount": dollars(7)});
    for (part, reference, status) in [("payment", "p", 200), ("refunds", "r", 201)] {
        let path = format!("{path}/{part}");
        let reply = service.post(&path, &operator, body(reference)).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    until("all deliveries", async || receiver.count() == 3).await;
    let told = receiver.received();
    let types = ["order.held", "order.refund_due", "order.refunded"];
    assert_eq!(told.types(), types);
    let (due, refunded) = (&told.events[1].1["data"], &told.events[2].1["data"]);
    assert_eq!(
        (&due["amount"], &due["payment"]),
        (&dollars(7), &json!("p"))
    );
    assert_eq!(refunded["refunded"], dollars(7));
    service.stop().await;
}

/// An endpoint receives an event that a free order is paid, although no payment was reported.
#[tokio::test]
async fn an_endpoint_is_told_that_a_free_order_is_paid() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let types = json!(["order.held", "order.paid"]);
    webhook(&service, &receiver, json!({ "types": types })).await;
    let free = |body: &mut Value| body["unit_price"]["amount"] = json!(0);
    let sale = service.sale(5, free).await;
    let bought = order(&service, &sale, "ann").await;
    until("all deliveries", async || receiver.count() == 2).await;
    let told = receiver.received();
    assert_eq!(told.types(), ["order.held", "order.paid"]);
    let paid = &told.events[1].1["data"];
    assert_eq!(paid["amount"], json!({"amount": 0, "currency": "CNY"}));
    assert_eq!(paid["payment"], format!("free-{}", bought.text("id")));
    service.stop().await;
}

/// An event about an order has the shop's number of the order, once the shop has stored it; others have the campaign's.
#[tokio::test]
async fn an_endpoint_is_told_the_shops_own_number() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let types = json!(["order.held", "order.cancelled", "campaign.closed"]);
    webhook(&service, &receiver, json!({ "types": types })).await;
    let operator = service.operator();
    let sale = service
        .sale(5, |body| body["reference"] = json!("SALE-1"))
        .await;
    let bought = order(&service, &sale, "ann").await.text("id");
    until("the first delivery", async || receiver.count() == 1).await;
    let path = format!("/v1/orders/{bought}/metadata");
    let stored = service.patch(&path, &operator, json!({"reference": "SO-7"}));
    assert_eq!(stored.await.status, 200);
    for path in [
        format!("/v1/orders/{bought}/cancellation"),
        format!("/v1/campaigns/{sale}/close"),
    ] {
        assert_eq!(service.act(&path, &operator).await.status, 200);
    }
    until("all deliveries", async || receiver.count() == 3).await;
    let told = receiver.received();
    let events = told.events.iter().map(|(_, body)| &body["data"]);
    let references: Vec<_> = events.map(|data| data["reference"].as_str()).collect();
    assert_eq!(references, [None, Some("SO-7"), Some("SALE-1")]);
    service.stop().await;
}

/// Attempts at a failing endpoint become rarer, and it is disabled in the end. A redrive delivers all its events.
#[tokio::test]
async fn an_endpoint_that_fails_is_disabled_and_redriven() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    // Only `order.held`: holds also expire as the clock moves.
    let path = webhook(&service, &receiver, json!({"types": ["order.held"]})).await;
    receiver.answer_all(500);
    let sale = service.sale(9, |_| ()).await;
    order(&service, &sale, "u0").await;
    until("it fails", async || {
        get(&service, &path).await["status"] == "failing"
    })
    .await;
    let failing = get(&service, &path).await;
    assert_eq!(failing["attempts"], 1, "{failing}");
    assert_eq!(failing["last_error"], "status 500");
    assert!(failing["retry_at"].is_string() && failing["failing_since"].is_string());
    // The clock does not move, so no other attempt is due.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(receiver.requests(), 1);
    for attempts in 2..5 {
        service.clock.advance_ms(1_000);
        let tried = async || get(&service, &path).await["attempts"] == attempts;
        until("it is tried again", tried).await;
    }
    let test = service
        .act(&format!("{path}/test"), &service.operator())
        .await
        .json();
    assert_eq!(test, json!({"delivered": false, "error": "status 500"}));
    // A repetition under its key sends nothing more.
    let before = receiver.requests();
    for expected in ["", "true", "true"] {
        let path = format!("{path}/test");
        let operator = service.operator();
        let key = [("idempotency-key", "once")];
        let again = call(service.addr, "POST", &path, Some(&operator), &key, None).await;
        assert_eq!(again.header("idempotency-replayed"), expected);
        assert_eq!(again.json(), test);
        assert_eq!(receiver.requests(), before + 1);
    }
    service.clock.advance_ms(60_000);
    until("it is disabled", async || {
        get(&service, &path).await["status"] == "disabled"
    })
    .await;
    order(&service, &sale, "u1").await;
    let shown = async || {
        let metrics = service.get("/metrics", "").await;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        text.contains("qiang_webhook_endpoints{state=\"disabled\"} 1\n")
    };
    until("it is shown", shown).await;
    let before = receiver.requests();
    receiver.answer_all(200);
    service.clock.advance_ms(10_000);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!((receiver.requests(), receiver.count()), (before, 0));

    let redrive = format!("{path}/redrive");
    let redriven = service.act(&redrive, &service.operator()).await;
    assert_eq!(
        (redriven.status, redriven.text("status")),
        (200, "ok".to_owned())
    );
    until("all deliveries", async || receiver.count() == 2).await;
    // Redelivers from the beginning, and then new events.
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let redriven = service.post(&redrive, &service.operator(), since).await;
    assert_eq!(redriven.status, 200, "{redriven:?}");
    until("the events are redelivered", async || {
        receiver.received().duplicates == 2
    })
    .await;
    order(&service, &sale, "u2").await;
    until("the new event is delivered", async || receiver.count() == 3).await;
    // A late retry of a keyed redrive delivers nothing again.
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let keyed = async || {
        let (token, headers) = (service.operator(), [("Idempotency-Key", "again")]);
        let body = Some(since.clone());
        let made = call(service.addr, "POST", &redrive, Some(&token), &headers, body).await;
        assert_eq!(made.status, 200, "{made:?}");
        made
    };
    keyed().await;
    until("all events are redelivered", async || {
        receiver.received().duplicates == 5
    })
    .await;
    let again = keyed().await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    order(&service, &sale, "u3").await;
    until("the event after it is delivered", async || {
        receiver.count() == 4
    })
    .await;
    let told = receiver.received();
    assert_eq!(told.duplicates, 5);
    let mut users: Vec<_> = told
        .events
        .iter()
        .map(|(_, it)| it["data"]["user"].as_str().unwrap())
        .collect();
    users.sort_unstable(); // orders do not wait for each other
    assert_eq!(users, ["u0", "u1", "u2", "u3"]);
    service.stop().await;
}

/// A process ends between a delivery and its record. The next process delivers that event again and continues.
#[tokio::test]
async fn what_was_told_and_not_noted_is_told_again() {
    let one_at_a_time = |config: &mut NodeConfig, backend: &mut Backend| {
        adjust(config, backend);
        config.webhooks.concurrent_max = 1;
    };
    let service = Service::start_with(one_at_a_time).await;
    let receiver = Receiver::start().await;
    webhook(&service, &receiver, json!({"types": ["order.held"]})).await;
    // The second request is in flight when the process ends, so the first delivery is not recorded.
    receiver.answer(2, Answer::Late(Duration::from_secs(3_600)));
    let sale = service.sale(9, |_| ()).await;
    for user in ["u0", "u1", "u2"] {
        order(&service, &sale, user).await;
    }
    until("the second request is in flight", async || {
        receiver.requests() == 2
    })
    .await;
    let service = service.restart_with(one_at_a_time).await;
    until("all events are delivered", async || receiver.count() == 3).await;
    let told = receiver.received();
    let users: Vec<_> = told
        .events
        .iter()
        .map(|(_, it)| it["data"]["user"].clone())
        .collect();
    assert_eq!(users, ["u0", "u1", "u2"]);
    service.stop().await;
}

/// An endpoint that accepts only some events never fails for long. It is still disabled once its oldest event is too
/// old.
#[tokio::test]
async fn an_endpoint_that_lags_too_far_behind_is_disabled() {
    let service = Service::start_with(|config, backend| {
        adjust(config, backend);
        (
            config.webhooks.event_ttl_ms,
            config.webhooks.disable_after_ms,
        ) = (1_000, 60_000);
    })
    .await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({"types": ["order.held"]})).await;
    let [one, other] = [service.sale(9, |_| ()).await, service.sale(9, |_| ()).await];
    receiver.answer_all(500);
    order(&service, &one, "u0").await;
    order(&service, &other, "u0").await;
    until("it fails", async || {
        get(&service, &path).await["waiting"] == 2
    })
    .await;
    receiver.answer_all(200);
    receiver.refuse(Some(&other));
    service.clock.advance_ms(31_000);
    until("one event is delivered", async || receiver.count() == 1).await;
    service.clock.advance_ms(31_000);
    until("it is disabled", async || {
        get(&service, &path).await["status"] == "disabled"
    })
    .await;
    assert_eq!(receiver.count(), 1);
    let disabled = get(&service, &path).await;
    assert_eq!(disabled["waiting"], 1, "{disabled}");
    service.stop().await;
}

/// An endpoint that answers 410 is disabled at once.
#[tokio::test]
async fn an_endpoint_that_is_gone_is_disabled() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({})).await;
    receiver.answer_all(410);
    let sale = service.sale(9, |_| ()).await;
    order(&service, &sale, "u0").await;
    until("it is disabled", async || {
        get(&service, &path).await["status"] == "disabled"
    })
    .await;
    service.stop().await;
}

/// A campaign with failing events delays no other campaign. The events of each order arrive in their order, also if the
/// endpoint answers late.
#[tokio::test]
async fn a_campaign_that_is_refused_holds_up_no_other() {
    let service = Service::start_with(|config, backend| {
        adjust(config, backend);
        config.webhooks.timeout_ms = 500;
        config.webhooks.disable_after_ms = 864_000_000;
    })
    .await;
    let receiver = Receiver::start().await;
    let filter = json!({"types": ["order.held", "order.cancelled"]});
    webhook(&service, &receiver, filter).await;
    let [one, other] = [
        service.sale(99, |_| ()).await,
        service.sale(99, |_| ()).await,
    ];
    receiver.refuse(Some(&one));
    // These time out.
    for nth in 2..6 {
        receiver.answer(nth, Answer::Late(Duration::from_millis(900)));
    }
    // These are answered, unless the machine is slow. Later events of the same order must wait.
    for nth in [10, 15, 20, 30, 31, 40, 45] {
        receiver.answer(nth, Answer::Late(Duration::from_millis(150)));
    }
    for n in 0..20 {
        for sale in [&one, &other] {
            let user = format!("u{n}");
            let bought = order(&service, sale, &user).await.text("id");
            let path = format!("/v1/orders/{bought}/cancellation");
            let cancelled = service.act(&path, &service.token(&user, "claim")).await;
            assert_eq!(cancelled.status, 200, "{cancelled:?}");
        }
    }
    let told = |sale: &str| {
        let mut orders: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (_, body) in receiver.received().events {
            if body["data"]["campaign"] == sale {
                let number = body["data"]["number"].as_i64().unwrap();
                let kind = body["type"].as_str().unwrap().to_owned();
                orders.entry(number).or_default().push(kind);
            }
        }
        orders
    };
    // After each failure the next attempt is due at a different time.
    let all = async |sale: &str| {
        service.clock.advance_ms(2_000);
        told(sale).values().map(Vec::len).sum::<usize>() == 40
    };
    until("the other sale is done", async || all(&other).await).await;
    assert_eq!(told(&one).len(), 0);
    receiver.refuse(None);
    until("all events are delivered", async || all(&one).await).await;
    let events = ["order.held", "order.cancelled"].map(str::to_owned);
    let expected = (1..=20).map(|number| (number, events.to_vec()));
    let expected: BTreeMap<i64, Vec<String>> = expected.collect();
    for sale in [&one, &other] {
        assert_eq!(told(sale), expected);
    }
    service.stop().await;
}

#[tokio::test]
async fn only_what_may_be_an_endpoint_is_one() {
    let service = Service::start().await;
    let operator = service.operator();
    let create = async |body: Value| service.post("/v1/webhooks", &operator, body).await;
    for (body, pointer) in [
        (json!({"url": "https://127.0.0.1/"}), "#/url"),
        (json!({"url": "https://169.254.169.254/latest"}), "#/url"),
        (json!({"url": "https://[fd00::1]/"}), "#/url"),
        (json!({"url": "http://hooks.example/"}), "#/url"),
        (json!({"url": "https://me:secret@hooks.example/"}), "#/url"),
        (
            json!({"url": "https://hooks.example/", "types": ["order.lost"]}),
            "#/types",
        ),
    ] {
        let reply = create(body).await;
        reply.assert_problem(422, "invalid");
        assert_eq!(reply.json()["errors"][0]["pointer"], pointer);
    }
    create(json!({"url": "https://hooks.example/", "secret": "mine"}))
        .await
        .assert_problem(422, "invalid");
    // A host name passes here. Its addresses are checked when it is connected.
    let receiver = Receiver::start().await;
    let url = format!("https://localhost:{}/", receiver.addr.port());
    let body = json!({"url": url, "types": ["order.paid"]});
    let made = service
        .post_key("/v1/webhooks", &operator, "k1", body.clone())
        .await;
    assert_eq!(made.status, 201);
    let again = service
        .post_key("/v1/webhooks", &operator, "k1", body.clone())
        .await;
    assert_eq!((again.status, again.json()), (200, made.json()));
    let path = format!("/v1/webhooks/{}", made.text("id"));
    let test = service.act(&format!("{path}/test"), &operator).await.json();
    assert_eq!(test["delivered"], false);
    let why = test["error"].as_str().unwrap();
    assert!(why.contains("not on the public internet"), "{why}");
    assert_eq!(receiver.requests(), 0);

    let listed = service.get("/v1/webhooks", &operator).await.json();
    assert_eq!(listed["data"][0]["types"], json!(["order.paid"]));
    assert!(!listed.to_string().contains("whsec_"), "a secret is listed");
    let rotate = format!("{path}/secret");
    let rotated = service
        .post_key(&rotate, &operator, "k2", json!({"overlap_seconds": 60}))
        .await;
    assert_ne!(rotated.text("secret"), made.text("secret"));
    let again = service
        .post_key(&rotate, &operator, "k2", json!({"overlap_seconds": 60}))
        .await;
    assert_eq!(again.json(), rotated.json());
    let reply =
        crate::node::http::common::call(service.addr, "DELETE", &path, Some(&operator), &[], None)
            .await;
    assert_eq!(reply.status, 204);
    // A late retry of its creation does not restore it.
    service
        .post_key("/v1/webhooks", &operator, "k1", body)
        .await
        .assert_problem(404, "not-found");
    for path in [
        path.clone(),
        "/v1/webhooks/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".to_owned(),
    ] {
        service
            .get(&path, &operator)
            .await
            .assert_problem(404, "not-found");
    }
    service
        .get("/v1/webhooks/1", &operator)
        .await
        .assert_problem(400, "bad-request");
    service.stop().await;
}
