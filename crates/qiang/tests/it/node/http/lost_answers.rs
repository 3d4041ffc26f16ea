//! Commands under a key whose answer was lost before it was stored: a redrive, redelivery or test of a webhook, and a
//! redrive of a quarantined entry. A retry is answered, and acts only if the first try did not.

use serde_json::{Value, json};

use crate::node::http::{
    common::{Reply, Service, call},
    operation::{MEND, change, done, refused_grant},
    receiver::Receiver,
    webhook_orders::{arrive, holds_long},
    webhooks::{adjust, get, order, until, webhook},
};

async fn keyed(service: &Service, path: &str, key: &str, body: Option<Value>) -> Reply {
    let (token, headers) = (service.operator(), [("Idempotency-Key", key)]);
    call(service.addr, "POST", path, Some(&token), &headers, body).await
}

/// Deletes the answer of a key, as if the node had died before it stored it.
fn lose_answer(service: &Service, key: &str) {
    let lose = format!("UPDATE idempotency_keys SET answer = NULL WHERE key = '{key}'");
    change(service, &lose, 1);
}

/// Deletes the record that the command of a key was carried out, as if the node had died before that.
fn lose_action(service: &Service, key: &str) {
    let lose = format!(
        "DELETE FROM actions WHERE id = (SELECT id FROM idempotency_keys WHERE key = '{key}')"
    );
    change(service, &lose, 1);
}

#[track_caller]
fn assert_replayed(reply: &Reply) {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("idempotency-replayed"), "true");
}

async fn redrives_of(service: &Service, path: &str) -> usize {
    let id = path.rsplit('/').next().unwrap();
    let log = get(service, &format!("/v1/operation-log?subject={id}")).await;
    let actions = log["data"].as_array().unwrap().iter();
    actions.filter(|it| it["action"] == "redrive").count()
}

#[tokio::test]
async fn a_webhook_is_redriven_once() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({})).await;
    let disable = async || {
        let body = json!({ "enabled": false });
        let reply = service.patch(&path, &service.operator(), body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    let redrive = async || keyed(&service, &format!("{path}/redrive"), "k", None).await;
    disable().await;
    assert_eq!(redrive().await.text("status"), "ok");
    // Carried out: the retry does not enable it again.
    for _ in 0..2 {
        disable().await;
        lose_answer(&service, "k");
        let again = redrive().await;
        assert_replayed(&again);
        assert_eq!(again.text("status"), "disabled");
    }
    // Never carried out: one retry is.
    lose_answer(&service, "k");
    lose_action(&service, "k");
    for status in ["ok", "disabled"] {
        let again = redrive().await;
        assert_replayed(&again);
        assert_eq!(again.text("status"), status);
        assert_eq!(redrive().await.json(), again.json());
        assert_eq!(redrives_of(&service, &path).await, 1);
        disable().await;
        lose_answer(&service, "k");
    }
    service.stop().await;
}

#[tokio::test]
async fn an_event_is_redelivered_once() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({"types": ["order.held"]})).await;
    let sale = service.sale(9, holds_long).await;
    order(&service, &sale, "u0").await;
    arrive(&receiver, 1).await;
    until("the attempt is in the log", async || {
        get(&service, &format!("{path}/deliveries")).await["data"] != json!([])
    })
    .await;
    let event = receiver.received().events[0].0.clone();
    let redeliver = async || {
        let body = Some(json!({ "event": event }));
        keyed(&service, &format!("{path}/redeliver"), "k", body).await
    };
    let arrives_again = async |times: usize| {
        receiver.answer_all(200);
        until("it arrives again", async || {
            // Attempts that failed are repeated a moment later.
            service.clock.advance_ms(200);
            receiver.received().duplicates == times && get(&service, &path).await["waiting"] == 0
        })
        .await;
        receiver.answer_all(503);
    };
    receiver.answer_all(503);
    assert_eq!(redeliver().await.json()["waiting"], 1);
    arrives_again(1).await;
    // Carried out: nothing waits for a second delivery.
    lose_answer(&service, "k");
    let again = redeliver().await;
    assert_replayed(&again);
    assert_eq!(again.json()["waiting"], 0);
    // Never carried out: one retry is.
    lose_answer(&service, "k");
    lose_action(&service, "k");
    let again = redeliver().await;
    assert_replayed(&again);
    assert_eq!(again.json()["waiting"], 1);
    arrives_again(2).await;
    lose_answer(&service, "k");
    let again = redeliver().await;
    assert_replayed(&again);
    assert_eq!(again.json()["waiting"], 0);
    assert_eq!(redrives_of(&service, &path).await, 1);
    service.stop().await;
}

/// The receiver checks that an event of one id keeps its content.
#[tokio::test]
async fn a_test_that_is_repeated_is_the_same_event() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = webhook(&service, &receiver, json!({})).await;
    let test = async || keyed(&service, &format!("{path}/test"), "k", None).await;
    let sent = test().await;
    assert_eq!(sent.json(), json!({ "delivered": true }));
    service.clock.advance_ms(60_000);
    lose_answer(&service, "k");
    for _ in 0..2 {
        let again = test().await;
        assert_replayed(&again);
        assert_eq!(again.json(), sent.json());
    }
    let received = receiver.received();
    assert_eq!((received.requests, received.duplicates), (2, 1));
    assert_eq!(received.types(), ["webhook.test"]);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_settled_once() {
    let service = Service::start().await;
    let entry = refused_grant(&service).await;
    let redrive = async || {
        let path = format!("/v1/quarantine/{entry}/redrive");
        keyed(&service, &path, "k", None).await
    };
    redrive().await.assert_problem(409, "still-refused");
    change(&service, MEND, 1);
    // The first try was not carried out.
    lose_answer(&service, "k");
    let settled = json!({ "entry": entry, "settled": true });
    for _ in 0..2 {
        let again = redrive().await;
        assert_replayed(&again);
        assert_eq!(again.json(), settled);
        lose_answer(&service, "k");
    }
    let balance = service.balance("u1").await;
    assert!(balance > 0);
    // It was settled by another request.
    lose_action(&service, "k");
    let again = redrive().await;
    assert_replayed(&again);
    assert_eq!(again.json(), settled);
    assert_eq!(service.balance("u1").await, balance);
    assert_eq!(done(&service).await, []);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_discarded_since_is_not_settled() {
    let service = Service::start().await;
    let entry = refused_grant(&service).await;
    let redrive = async || {
        let path = format!("/v1/quarantine/{entry}/redrive");
        keyed(&service, &path, "k", None).await
    };
    redrive().await.assert_problem(409, "still-refused");
    lose_answer(&service, "k");
    change(&service, "UPDATE set_aside SET discard = 3", 1);
    redrive().await.assert_problem(404, "not-quarantined");
    service.stop().await;
}
