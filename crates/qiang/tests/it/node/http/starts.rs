//! Scheduled sales that are started now, paused before their start, or moved after they have opened.

use serde_json::{Value, json};

use crate::node::http::common::{Service, call};

const NEXT_HOUR: &str = "2026-11-21T13:00:00.000Z";

fn later(body: &mut Value) {
    body["starts_at"] = json!(NEXT_HOUR);
}

#[tokio::test]
async fn a_scheduled_sale_is_started_once() {
    let service = Service::start().await;
    let id = service.sale(5, later).await;
    let (path, operator) = (format!("/v1/sales/{id}"), service.operator());
    let start = format!("{path}/start");
    let stranger = service.act(&start, &service.token("ann", "claim")).await;
    stranger.assert_problem(403, "forbidden");
    let order = async |user: &str| {
        let token = service.token(user, "claim");
        service.act(&format!("{path}/orders"), &token).await
    };
    order("ann").await.assert_problem(409, "not-started");
    // It keeps its pause: a paused sale is resumed first.
    let pause = format!("/v1/campaigns/{id}/pause");
    assert_eq!(service.act(&pause, &operator).await.text("phase"), "paused");
    order("ann").await.assert_problem(503, "paused");
    let paused = service.act(&start, &operator).await;
    paused.assert_problem(409, "phase-conflict");
    let resume = format!("/v1/campaigns/{id}/resume");
    for _ in 0..2 {
        let resumed = service.act(&resume, &operator).await;
        assert_eq!(resumed.text("phase"), "scheduled");
    }
    let key = [("Idempotency-Key", "start-1")];
    let started = call(service.addr, "POST", &start, Some(&operator), &key, None).await;
    assert_eq!(started.text("phase"), "live", "{started:?}");
    assert_eq!(started.text("starts_at"), "2026-11-21T12:00:00.000Z");
    assert_eq!(order("ann").await.status, 201);
    service.clock.advance_ms(1_000);
    let again = call(service.addr, "POST", &start, Some(&operator), &key, None).await;
    assert_eq!(again.json(), started.json());
    let anew = service.act(&start, &operator).await;
    assert_eq!(anew.text("starts_at"), "2026-11-21T12:00:00.000Z");
    // The public page and the sale show it too.
    let seen = service.get(&path, &operator).await.json();
    assert_eq!(
        seen["state"]["starts_at"],
        json!("2026-11-21T12:00:00.000Z")
    );
    let service = service.restart().await;
    let seen = service.get(&path, &operator).await.json();
    assert_eq!(seen["state"]["phase"], json!("live"));
    let log = format!("/v1/operation-log?subject={id}");
    let log = service.get(&log, &operator).await.json();
    // Actions of one millisecond are in any order.
    let actions = log["data"].as_array().unwrap().iter();
    let mut kinds: Vec<_> = actions
        .map(|action| (action["action"].as_str().unwrap(), &action["before"]))
        .collect();
    kinds.sort_by_key(|(kind, _)| *kind);
    let (none, before) = (&Value::Null, &json!({ "starts_at": NEXT_HOUR }));
    let expected = [
        ("create", none),
        ("pause", none),
        ("resume", none),
        ("start", before),
    ];
    assert_eq!(kinds, expected);
    let close = format!("/v1/campaigns/{id}/close");
    assert_eq!(service.act(&close, &operator).await.status, 200);
    let over = service.act(&start, &operator).await;
    over.assert_problem(409, "phase-conflict");
    let packet = service.red_packet(3, later).await;
    let packet = service
        .act(&format!("/v1/sales/{packet}/start"), &operator)
        .await;
    packet.assert_problem(404, "unknown-campaign");
    service.stop().await;
}

/// The start of an opened sale moves until a unit was sold, also while it is paused.
#[tokio::test]
async fn the_start_of_an_opened_sale_moves_until_it_sells() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let (path, operator) = (format!("/v1/sales/{id}"), service.operator());
    service.clock.advance_ms(1_000);
    let start = async |at: &str| {
        let body = json!({ "starts_at": at });
        service.patch(&path, &operator, body).await
    };
    start("2026-11-21T12:00:00.999Z")
        .await
        .assert_problem(422, "invalid");
    let moved = start(NEXT_HOUR).await;
    assert_eq!(
        moved.json()["state"]["phase"],
        json!("scheduled"),
        "{moved:?}"
    );
    let (orders, ann) = (format!("{path}/orders"), service.token("ann", "claim"));
    let early = service.act(&orders, &ann).await;
    early.assert_problem(409, "not-started");
    // A later start replaced it, so a lost answer to the first is not made again.
    let key = [("Idempotency-Key", "start-1")];
    let now = format!("{path}/start");
    let started = call(service.addr, "POST", &now, Some(&operator), &key, None).await;
    assert_eq!(started.text("phase"), "live");
    let sold = service.act(&orders, &ann).await;
    assert_eq!(sold.status, 201, "{sold:?}");
    let cancel = format!("/v1/orders/{}/cancellation", sold.text("id"));
    assert_eq!(service.act(&cancel, &ann).await.status, 200);
    let refused = start(NEXT_HOUR).await;
    refused.assert_problem(409, "phase-conflict");
    assert!(refused.text("detail").contains("sold units"), "{refused:?}");
    service.stop().await;
}
