//! Order of webhook events: each order has its own, and an order whose events fail delays no other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::node::http::{
    common::{Service, paid},
    receiver::Receiver,
    webhooks::{adjust, get, order, until, webhook},
};

/// Time in which events of other orders arrive. They are looked for twice a second.
const USUAL: Duration = Duration::from_secs(30);

/// Types of the accepted events of a user, in the order of their arrival.
pub(super) fn types_of(receiver: &Receiver, user: &str) -> Vec<String> {
    let events = receiver.received().events.into_iter();
    let of_user = events.filter(|(_, body)| body["data"]["user"] == user);
    of_user
        .map(|(_, body)| body["type"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until a number of events was accepted, but no longer than usual.
pub(super) async fn arrive(receiver: &Receiver, count: usize) {
    let over = Instant::now() + USUAL;
    while receiver.count() < count && Instant::now() < over {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        receiver.count(),
        count,
        "events of other orders that arrived"
    );
}

/// No order expires in these tests.
pub(super) fn holds_long(sale: &mut Value) {
    sale["hold_seconds"] = json!(3_600);
}

pub(super) async fn pay(service: &Service, order: &str, reference: &str) {
    let path = format!("/v1/orders/{order}/payment");
    let reply = service
        .post(&path, &service.operator(), paid(reference, 500))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// An endpoint always refuses the events of one order. Events of other orders, of the same sale too, arrive in their
/// usual time. The refused ones arrive in their order, once the endpoint accepts them.
#[tokio::test]
async fn an_order_whose_events_are_refused_holds_up_no_other() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let filter = json!({"types": ["order.held", "order.paid"]});
    let path = webhook(&service, &receiver, filter).await;
    let sale = service.sale(99, holds_long).await;
    receiver.refuse(Some("u0"));
    let refused = order(&service, &sale, "u0").await.text("id");
    until("it is refused", async || receiver.requests() > 0).await;
    for n in 1..40 {
        order(&service, &sale, &format!("u{n}")).await;
    }
    // The clock does not move, so the refused event is not due again.
    arrive(&receiver, 39).await;
    pay(&service, &refused, "p0").await;
    let other = order(&service, &sale, "u40").await.text("id");
    pay(&service, &other, "p40").await;
    arrive(&receiver, 41).await;
    assert_eq!(types_of(&receiver, "u40"), ["order.held", "order.paid"]);
    assert_eq!(types_of(&receiver, "u0"), Vec::<String>::new());
    until("both events wait", async || {
        get(&service, &path).await["waiting"] == 2
    })
    .await;

    receiver.refuse(None);
    until("the refused events arrive", async || {
        service.clock.advance_ms(1_000);
        types_of(&receiver, "u0").len() == 2
    })
    .await;
    assert_eq!(types_of(&receiver, "u0"), ["order.held", "order.paid"]);
    assert_eq!(receiver.received().duplicates, 0);
    until("none waits", async || {
        get(&service, &path).await["waiting"] == 0
    })
    .await;
    service.stop().await;
}

/// The process ends while events of an order wait for a retry. The next process sends each of them once, in order.
#[tokio::test]
async fn events_that_wait_for_a_retry_survive_a_restart() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let filter = json!({"types": ["order.held", "order.paid"]});
    let path = webhook(&service, &receiver, filter).await;
    let sale = service.sale(99, holds_long).await;
    receiver.refuse(Some("u0"));
    let refused = order(&service, &sale, "u0").await.text("id");
    pay(&service, &refused, "p0").await;
    order(&service, &sale, "u1").await;
    arrive(&receiver, 1).await;
    until("both events wait", async || {
        get(&service, &path).await["waiting"] == 2
    })
    .await;
    receiver.refuse(None);
    let service = service.restart_with(adjust).await;
    until("the refused events arrive", async || {
        service.clock.advance_ms(1_000);
        types_of(&receiver, "u0").len() == 2
    })
    .await;
    assert_eq!(types_of(&receiver, "u0"), ["order.held", "order.paid"]);
    assert_eq!(receiver.received().duplicates, 0);
    service.stop().await;
}

/// An endpoint that refuses everything is tried with few events, and another endpoint receives all events in the usual
/// time.
#[tokio::test]
async fn an_endpoint_that_refuses_everything_costs_little() {
    let service = Service::start_with(adjust).await;
    let (dead, healthy) = (Receiver::start().await, Receiver::start().await);
    let filter = json!({"types": ["order.held"]});
    let path = webhook(&service, &dead, filter.clone()).await;
    webhook(&service, &healthy, filter).await;
    dead.answer_all(500);
    let sale = service.sale(200, holds_long).await;
    for n in 0..200 {
        order(&service, &sale, &format!("u{n}")).await;
    }
    arrive(&healthy, 200).await;
    let waiting = async || get(&service, &path).await["waiting"].as_u64().unwrap();
    // The clock does not move, so the endpoint is not tried again. A first look may find up to 7 events, and in the
    // next one 7 requests may be in flight as the eighth is refused.
    let before = dead.requests();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(dead.requests(), before);
    assert!(before <= 22, "{before} requests");
    assert!(waiting().await <= 22, "{} events wait", waiting().await);
    for _ in 0..5 {
        service.clock.advance_ms(1_000);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    // Each pause ended with a retry and a new event.
    assert!(
        dead.requests() <= before + 10,
        "{} requests",
        dead.requests()
    );
    assert!(waiting().await <= 27, "{} events wait", waiting().await);
    let behind = get(&service, &path).await["behind"].as_u64().unwrap();
    assert!((200..=227).contains(&behind), "{behind} events behind");

    dead.answer_all(200);
    until("all events arrive", async || {
        service.clock.advance_ms(1_000);
        dead.count() == 200
    })
    .await;
    let events: Vec<Value> = dead.received().events.into_iter().map(|it| it.1).collect();
    let users: std::collections::BTreeSet<_> = events
        .iter()
        .map(|it| it["data"]["user"].to_string())
        .collect();
    assert_eq!(users.len(), 200);
    service.stop().await;
}

/// An event that is refused for too long is given up while the endpoint accepts others, and the next event of its order
/// is sent.
#[tokio::test]
async fn an_event_that_is_always_refused_is_given_up() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let filter = json!({"types": ["order.held", "order.paid"]});
    let path = webhook(&service, &receiver, filter).await;
    let sale = service.sale(99, holds_long).await;
    receiver.refuse(Some("u0"));
    let refused = order(&service, &sale, "u0").await.text("id");
    until("it is refused", async || {
        get(&service, &path).await["waiting"] == 1
    })
    .await;
    // Another order is delivered in between, so the endpoint works. Then the limit of 60 s is over.
    service.clock.advance_ms(30_000);
    order(&service, &sale, "u1").await;
    arrive(&receiver, 1).await;
    service.clock.advance_ms(31_000);
    until("it is given up", async || {
        get(&service, &path).await["waiting"] == 0
    })
    .await;
    assert_ne!(get(&service, &path).await["status"], "disabled");
    receiver.refuse(None);
    pay(&service, &refused, "p0").await;
    arrive(&receiver, 2).await;
    assert_eq!(types_of(&receiver, "u0"), ["order.paid"]);
    service.stop().await;
}

/// The only event of a quiet endpoint is refused for too long. A test shows that the endpoint works, so the event is
/// given up, and the endpoint receives the next one.
#[tokio::test]
async fn a_quiet_endpoint_with_one_refused_event_is_not_disabled() {
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
    // The limit of 60 s is over, and nothing else was delivered.
    for _ in 0..3 {
        service.clock.advance_ms(61_000);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    until("it is given up", async || {
        get(&service, &path).await["waiting"] == 0
    })
    .await;
    assert_ne!(get(&service, &path).await["status"], "disabled");
    order(&service, &sale, "u1").await;
    until("the next one arrives", async || {
        types_of(&receiver, "u1") == ["order.held"]
    })
    .await;
    service.stop().await;
}

/// A campaign's opening, its changes, its last unit and its close are events of the campaign, in order.
#[tokio::test]
async fn an_endpoint_is_told_what_happens_to_a_campaign() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let types = ["opened", "sold_out", "changed", "closed"].map(|it| format!("campaign.{it}"));
    webhook(&service, &receiver, json!({ "types": types })).await;
    let sale = service.sale(1, holds_long).await;
    arrive(&receiver, 1).await;
    let operator = service.operator();
    let stock = json!({"stock": 2});
    let changed = service
        .patch(&format!("/v1/sales/{sale}"), &operator, stock)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    arrive(&receiver, 2).await;
    let limit = json!({"per_user_limit": 2});
    let changed = service
        .patch(&format!("/v1/sales/{sale}"), &operator, limit)
        .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    arrive(&receiver, 3).await;
    for (count, action) in [(4, "pause"), (5, "resume")] {
        let path = format!("/v1/campaigns/{sale}/{action}");
        assert_eq!(service.act(&path, &operator).await.status, 200);
        arrive(&receiver, count).await;
    }
    order(&service, &sale, "u0").await;
    let last = order(&service, &sale, "u1").await.text("id");
    arrive(&receiver, 6).await;
    // The unit returns, and is sold again.
    let path = format!("/v1/orders/{last}/cancellation");
    assert_eq!(
        service
            .act(&path, &service.token("u1", "claim"))
            .await
            .status,
        200
    );
    order(&service, &sale, "u2").await;
    arrive(&receiver, 7).await;
    let path = format!("/v1/campaigns/{sale}/close");
    assert_eq!(service.act(&path, &operator).await.status, 200);
    arrive(&receiver, 8).await;
    let told = receiver.received();
    let events: Vec<_> = (told.events.iter())
        .map(|(_, body)| {
            assert_eq!(body["data"]["campaign"], sale);
            assert_eq!(body["data"]["owner"], "olga");
            let kind = body["type"].as_str().unwrap();
            (kind, body["data"]["change"].as_str())
        })
        .collect();
    let expected = [
        ("campaign.opened", None),
        ("campaign.changed", Some("stock")),
        ("campaign.changed", Some("terms")),
        ("campaign.changed", Some("paused")),
        ("campaign.changed", Some("resumed")),
        ("campaign.sold_out", None),
        ("campaign.sold_out", None),
        ("campaign.closed", None),
    ];
    assert_eq!(events, expected);
    service.stop().await;
}
