//! Idempotency keys: replays and their header, keys after a refusal, and the lifetime of keys.

use std::time::{Duration, Instant};

use crate::node::http::common::{Reply, START_MS, Service, named_deposit, packet, paid};
use qiang::id_at;
use qiang_core::time::Timestamp;
use serde_json::json;

/// The status, and whether the header marks a replay.
fn seen(reply: &Reply) -> (u16, bool) {
    (reply.status, reply.header("idempotency-replayed") == "true")
}

#[tokio::test]
async fn a_replay_says_so() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let deposits = "/v1/accounts/ann/deposits";
    let body = named_deposit("d-1", 500);
    for expected in [(201, false), (200, true)] {
        let made = service
            .post_key(deposits, &operator, "d", body.clone())
            .await;
        assert_eq!(seen(&made), expected, "{made:?}");
    }
    let sale = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{sale}/orders");
    let mut order = String::new();
    for expected in [(201, false), (200, true)] {
        let made = service
            .post_key(&orders, &ann, "o", json!({ "quantity": 1 }))
            .await;
        assert_eq!(seen(&made), expected, "{made:?}");
        order = made.text("id");
    }
    let payment = format!("/v1/orders/{order}/payment");
    for expected in [(200, false), (200, true)] {
        let made = service
            .post_key(&payment, &operator, "p", paid("p", 500))
            .await;
        assert_eq!(seen(&made), expected, "{made:?}");
    }
    // Neither an error nor a request without a key is a replay.
    let other = service
        .post_key(&payment, &operator, "p", paid("q", 500))
        .await;
    other.assert_problem(422, "key-reused");
    assert_eq!(other.header("idempotency-replayed"), "");
    let other = named_deposit("d-2", 500);
    let anew = service.post(deposits, &operator, other).await;
    assert_eq!(seen(&anew), (201, false));
    service.stop().await;
}

/// A key of the longest form means its own request, also if it differs from another one in its last character.
#[tokio::test]
async fn a_key_has_up_to_255_characters() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let sale = service
        .sale(5, |sale| sale["per_user_limit"] = json!(2))
        .await;
    let orders = format!("/v1/sales/{sale}/orders");
    let [first, second] = ["a", "b"].map(|last| format!("{}{last}", "k".repeat(254)));
    let mut ids = Vec::new();
    for (key, expected) in [
        (&first, (201, false)),
        (&second, (201, false)),
        (&first, (200, true)),
        (&second, (200, true)),
    ] {
        let made = service
            .post_key(&orders, &ann, key, json!({ "quantity": 1 }))
            .await;
        assert_eq!(seen(&made), expected, "{made:?}");
        ids.push(made.text("id"));
    }
    assert_eq!(ids[..2], ids[2..]);
    assert_ne!(ids[0], ids[1]);
    for (n, key) in [&first, &second].into_iter().enumerate() {
        let deposits = "/v1/accounts/ann/deposits";
        let body = named_deposit(&format!("d-{n}"), 500);
        for expected in [(201, false), (200, true)] {
            let made = service
                .post_key(deposits, &operator, key, body.clone())
                .await;
            assert_eq!(seen(&made), expected, "{made:?}");
        }
    }
    let long = format!("{first}c");
    let refused = service
        .post_key(&orders, &ann, &long, json!({ "quantity": 1 }))
        .await;
    refused.assert_problem(400, "bad-request");
    assert_eq!(refused.json()["errors"][0]["parameter"], "Idempotency-Key");
    service.stop().await;
}

#[tokio::test]
async fn a_second_key_is_refused_while_the_user_has_the_one_order() {
    let service = Service::start().await;
    let ann = service.token("ann", "claim");
    let sale = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{sale}/orders");
    let order = async |key: &str| {
        service
            .post_key(&path, &ann, key, json!({ "quantity": 1 }))
            .await
    };
    let first = order("a").await;
    order("b").await.assert_problem(409, "limit-reached");
    let cancellation = format!("/v1/orders/{}/cancellation", first.text("id"));
    assert_eq!(service.act(&cancellation, &ann).await.status, 200);
    let second = order("b").await;
    assert_eq!(seen(&second), (201, false));
    for (key, meant) in [("a", &first), ("b", &second)] {
        let again = order(key).await;
        assert_eq!(seen(&again), (200, true));
        assert_eq!(again.text("id"), meant.text("id"));
    }
    service.stop().await;
}

#[tokio::test]
async fn the_creator_of_a_campaign_may_choose_its_id() {
    let service = Service::start().await;
    let (sam, rita) = (service.token("sam", "send"), service.token("rita", "send"));
    for user in ["sam", "rita"] {
        service.deposit(user, 1_000).await;
    }
    let id_of = |millis: i64| id_at(Timestamp::from_millis(millis)).to_string();
    let with_id = |id: &str, total| {
        let mut body = packet(total, 2);
        body["id"] = json!(id);
        body
    };
    let id = id_of(START_MS);
    let path = format!("/v1/red-packets/{id}");
    // A read before the creation does not delay later reads.
    service
        .get(&path, &sam)
        .await
        .assert_problem(404, "unknown-campaign");
    for expected in [(201, false), (200, true)] {
        let made = service
            .post("/v1/red-packets", &sam, with_id(&id, 200))
            .await;
        assert_eq!((seen(&made), made.text("id")), (expected, id.clone()));
    }
    assert_eq!(service.get(&path, &sam).await.status, 200);
    let claim = service
        .act(&format!("{path}/claims"), &service.token("ann", "claim"))
        .await;
    assert_eq!(claim.status, 201, "{claim:?}");

    // The id belongs to this campaign forever, for every user and every key.
    let other = service
        .post("/v1/red-packets", &sam, with_id(&id, 300))
        .await;
    other.assert_problem(422, "key-reused");
    let again = service
        .post_key("/v1/red-packets", &sam, "k", with_id(&id, 200))
        .await;
    again.assert_problem(409, "id-used");
    let taken = service
        .post("/v1/red-packets", &rita, with_id(&id, 200))
        .await;
    taken.assert_problem(409, "id-used");
    assert_eq!(
        (service.balance("sam").await, service.balance("rita").await),
        (800, 1_000)
    );
    // The refusal did not use the key.
    let fresh = service
        .post_key(
            "/v1/red-packets",
            &sam,
            "k",
            with_id(&id_of(START_MS + 1), 200),
        )
        .await;
    assert_eq!(seen(&fresh), (201, false));

    let day = 24 * 3_600_000;
    for wrong in [
        id.replacen("-7", "-4", 1),
        id_of(START_MS - day - 60_000),
        id_of(START_MS + day + 60_000),
    ] {
        let refused = service
            .post("/v1/red-packets", &sam, with_id(&wrong, 2))
            .await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], "#/id", "{wrong}");
    }
    // Capital letters make no difference.
    let again = with_id(&id.to_uppercase(), 200);
    let again = service.post("/v1/red-packets", &sam, again).await;
    assert_eq!(
        (again.status, again.text("id")),
        (200, id.clone()),
        "{again:?}"
    );
    let operator = service.operator();
    let sale = id_of(START_MS - day + 60_000);
    let body = json!({
        "id": sale, "title": "t", "stock": 1, "unit_price": { "amount": 1, "currency": "CNY" },
    });
    for expected in [(201, false), (200, true)] {
        let made = service.post("/v1/sales", &operator, body.clone()).await;
        assert_eq!((seen(&made), made.text("id")), (expected, sale.clone()));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_refused_creation_spends_no_key() {
    let service = Service::start().await;
    let sam = service.token("sam", "send");
    let send = async |total| {
        let body = packet(total, 2);
        service.post_key("/v1/red-packets", &sam, "k", body).await
    };
    service.deposit("sam", 900).await;
    send(1_000).await.assert_problem(409, "insufficient-funds");
    assert_eq!(seen(&send(900).await), (201, false));
    assert_eq!(seen(&send(900).await), (200, true));
    send(1_000).await.assert_problem(422, "key-reused");
    assert_eq!(service.balance("sam").await, 0);

    let operator = service.operator();
    let deposit = async |amount: i64| {
        let body = named_deposit(&format!("d-{amount}"), amount);
        service
            .post_key("/v1/accounts/sam/deposits", &operator, "k", body)
            .await
    };
    deposit(i64::MAX).await.assert_problem(422, "invalid");
    assert_eq!(seen(&deposit(7).await), (201, false));
    service.stop().await;
}

#[tokio::test]
async fn old_keys_are_forgotten_and_references_are_not() {
    let service =
        Service::start_with(|config, _| config.limits.idempotency_key_ttl_ms = 60_000).await;
    let operator = service.operator();
    let deposit = async |amount: i64| {
        let body = named_deposit(&format!("d-{amount}"), amount);
        service
            .post_key("/v1/accounts/sam/deposits", &operator, "k", body)
            .await
    };
    assert_eq!(deposit(1).await.status, 201);
    let sale = service.sale(2, |_| ()).await;
    let mut payments = Vec::new();
    for user in ["ann", "bob"] {
        let token = service.token(user, "claim");
        let order = service
            .act(&format!("/v1/sales/{sale}/orders"), &token)
            .await;
        payments.push(format!("/v1/orders/{}/payment", order.text("id")));
    }
    let pay = async |n: usize| service.post(&payments[n], &operator, paid("p", 500)).await;
    assert_eq!(pay(0).await.status, 200);
    service.clock.advance_ms(59_000);
    service.reconcile();
    tokio::time::sleep(Duration::from_millis(200)).await;
    deposit(2).await.assert_problem(422, "key-reused");
    service.clock.advance_ms(2_000);
    let until = Instant::now() + Duration::from_secs(20);
    // The key is deleted within a moment. Then it makes another deposit.
    let operator = service.operator();
    loop {
        service.reconcile();
        let body = named_deposit("d-2", 2);
        let path = "/v1/accounts/sam/deposits";
        match service.post_key(path, &operator, "k", body).await {
            made if made.status == 201 => break,
            refused => refused.assert_problem(422, "key-reused"),
        }
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(service.balance("sam").await, 3);
    pay(1).await.assert_problem(409, "payment-used");
    service.stop().await;
}
