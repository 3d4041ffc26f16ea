//! Every route's success, every outcome's answer, and idempotency keys, over real HTTP.

use std::sync::Arc;

use crate::node::http::common::{Service, call, cursor, packet, paid, sale};
use qiang_core::split::{Commitment, Seed, Split, SplitRule, commit};
use serde_json::json;

#[tokio::test]
async fn a_red_packet_from_deposit_to_reveal() {
    let service = Service::start().await;
    let id = service.red_packet(3, |_| ()).await;
    assert_eq!(service.balance("sam").await, 0);
    let path = format!("/v1/red-packets/{id}");
    let open = service.get(&path, &service.token("ann", "")).await;
    assert_eq!(open.status, 200);
    assert_eq!(open.json()["seed"], json!(null));
    assert_eq!(open.json()["state"]["phase"], json!("live"));
    assert_eq!(
        open.json()["remaining"],
        json!({ "amount": 10_000, "currency": "CNY" })
    );

    let granted = service
        .act(&format!("{path}/claims"), &service.token("ann", "claim"))
        .await;
    assert_eq!(granted.status, 201);
    let grant = granted.json();
    assert_eq!(
        (&grant["campaign"], &grant["number"], &grant["ack"]),
        (&json!(id), &json!(1), &json!("fsync"))
    );
    assert_eq!(grant["created_at"], json!("2026-11-21T12:00:00.000Z"));
    let amount = grant["amount"]["amount"].as_i64().unwrap();
    assert_eq!(service.balance("ann").await, amount);

    assert_eq!(
        service
            .act(&format!("{path}/claims"), &service.token("bob", "claim"))
            .await
            .status,
        201
    );
    let page = service
        .get(&format!("{path}/claims?limit=1"), &service.token("ann", ""))
        .await
        .json();
    assert_eq!(
        (
            &page["data"][0]["user"],
            &page["data"][0]["amount"]["amount"]
        ),
        (&json!("ann"), &json!(amount))
    );
    assert_eq!(
        (&page["next"], &page["settled"]),
        (&json!(cursor("shares", "1")), &json!(true))
    );
    let page = service
        .get(
            &format!("{path}/claims?from_number=2"),
            &service.token("ann", ""),
        )
        .await
        .json();
    assert_eq!(
        (&page["data"][0]["user"], &page["next"]),
        (&json!("bob"), &json!(null))
    );

    let closed = service
        .act(&format!("/v1/campaigns/{id}/close"), &service.operator())
        .await;
    assert_eq!(
        (closed.status, &closed.json()["phase"]),
        (200, &json!("closed"))
    );
    let closed = service.get(&path, &service.token("ann", "")).await.json();
    let refunded = closed["refunded"]["amount"].as_i64().unwrap();
    assert_eq!(service.balance("sam").await, refunded);
    assert_eq!(
        closed["claimed"]["amount"].as_i64().unwrap() + refunded,
        10_000
    );
    let seed: Seed = closed["seed"].as_str().unwrap().parse().unwrap();
    let commitment: Commitment = open.text("commitment").parse().unwrap();
    let split = Split::new(10_000, 3, SplitRule::DoubleAverage { min: 1 }).unwrap();
    let bound = commit(id.parse().unwrap(), "CNY".parse().unwrap(), &seed, &split);
    assert_eq!(bound, commitment);
    assert_eq!(split.shares(&seed)[0], amount);
    service.stop().await;
}

#[tokio::test]
async fn a_sale_from_order_to_payment_and_back() {
    let service = Service::start().await;
    let id = service.sale(2, |_| ()).await;
    let ann = service.token("ann", "claim");
    let order = service
        .post(
            &format!("/v1/sales/{id}/orders"),
            &ann,
            json!({ "quantity": 1 }),
        )
        .await;
    assert_eq!(order.status, 201);
    let body = order.json();
    assert_eq!(
        (&body["state"], &body["id"]),
        (&json!("held"), &json!(format!("{id}-1")))
    );
    assert_eq!(body["hold_until"], json!("2026-11-21T12:01:00.000Z"));
    assert_eq!(body["amount"], json!({ "amount": 500, "currency": "CNY" }));

    let path = format!("/v1/orders/{}", order.text("id"));
    let seen = service.get(&path, &ann).await;
    assert_eq!((seen.status, seen.text("user")), (200, "ann".to_owned()));
    service
        .get(&path, &service.token("eve", "claim"))
        .await
        .assert_problem(404, "not-found");
    assert_eq!(service.get(&path, &service.operator()).await.status, 200);

    let right = paid("pay-1", 500);
    let payment = format!("{path}/payment");
    service
        .post(&payment, &ann, right.clone())
        .await
        .assert_problem(403, "forbidden");
    for _ in 0..2 {
        let paid = service
            .post(&payment, &service.operator(), right.clone())
            .await;
        assert_eq!(
            (paid.status, paid.text("outcome")),
            (200, "paid".to_owned())
        );
        assert_eq!(paid.json()["order"]["state"], json!("paid"));
    }
    let twice = service
        .post(&payment, &service.operator(), paid("pay-2", 500))
        .await;
    assert_eq!(
        (
            twice.text("outcome"),
            &twice.json()["order"]["refundable_payments"]
        ),
        ("refund_due".to_owned(), &json!(1))
    );
    service
        .act(&format!("{path}/cancellation"), &ann)
        .await
        .assert_problem(409, "order-conflict");

    let bob = service.token("bob", "claim");
    let order = service.act(&format!("/v1/sales/{id}/orders"), &bob).await; // no body: one unit
    assert_eq!(order.status, 201);
    let path = format!("/v1/orders/{}/cancellation", order.text("id"));
    service
        .act(&path, &ann)
        .await
        .assert_problem(404, "not-found");
    for _ in 0..2 {
        let cancelled = service.act(&path, &bob).await;
        assert_eq!(
            (cancelled.status, cancelled.text("state")),
            (200, "cancelled".to_owned())
        );
    }
    let state = service.get(&format!("/v1/sales/{id}"), &bob).await.json();
    assert_eq!(
        (&state["state"]["granted"], &state["state"]["remaining"]),
        (&json!(1), &json!(1))
    );
    service.stop().await;
}

#[tokio::test]
async fn each_outcome_has_its_status_and_type() {
    let service = Service::start().await;
    let check = async |path: String, user: &str, status: u16, kind: &str| {
        let reply = service.act(&path, &service.token(user, "claim")).await;
        reply.assert_problem(status, kind);
        assert_eq!(reply.json()["outcome"], json!(kind.replace('-', "_")));
        reply
    };
    let claims = |id: &str| format!("/v1/red-packets/{id}/claims");
    let orders = |id: &str| format!("/v1/sales/{id}/orders");
    check(
        claims("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"),
        "ann",
        404,
        "unknown-campaign",
    )
    .await;

    let packet = service.red_packet(1, |_| ()).await;
    check(orders(&packet), "ann", 404, "unknown-campaign").await; // of the other kind
    let one = service.sale(1, |_| ()).await;
    let ann = service.token("ann", "claim");
    assert_eq!(service.act(&orders(&one), &ann).await.status, 201);
    assert_eq!(
        check(orders(&one), "bob", 409, "sold-out").await.json()["remaining"],
        json!(0)
    );
    assert_eq!(service.act(&orders(&one), &ann).await.status, 200);

    let later = service
        .red_packet(2, |body| {
            body["starts_at"] = json!("2026-11-21T20:00:10+08:00")
        })
        .await;
    let early = check(claims(&later), "ann", 409, "not-started").await;
    assert_eq!(
        (early.text("starts_at"), early.header("retry-after")),
        ("2026-11-21T12:00:10.000Z".to_owned(), "11")
    );
    service.clock.advance_ms(9_999);
    check(claims(&later), "ann", 409, "not-started").await;
    service.clock.advance_ms(1);
    assert_eq!(
        service
            .act(&claims(&later), &service.token("ann", "claim"))
            .await
            .status,
        201
    );

    let act = async |id: &str, verb: &str| {
        service
            .act(&format!("/v1/campaigns/{id}/{verb}"), &service.operator())
            .await
    };
    assert_eq!(act(&later, "pause").await.text("phase"), "paused");
    assert_eq!(
        check(claims(&later), "bob", 503, "paused")
            .await
            .header("retry-after"),
        "1"
    );
    assert_eq!(act(&later, "resume").await.text("phase"), "live");
    assert_eq!(act(&later, "close").await.text("phase"), "closed");
    act(&later, "resume")
        .await
        .assert_problem(409, "phase-conflict");
    check(claims(&later), "bob", 410, "ended").await;
    assert_eq!(
        service
            .act(&claims(&later), &service.token("ann", "claim"))
            .await
            .status,
        200
    ); // still ann's

    let two = service
        .sale(5, |body| body["per_user_limit"] = json!(2))
        .await;
    let three = service
        .post(
            &orders(&two),
            &service.token("ann", "claim"),
            json!({ "quantity": 3 }),
        )
        .await;
    three.assert_problem(409, "limit-reached");
    assert_eq!(
        (&three.json()["limit"], &three.json()["held"]),
        (&json!(2), &json!(0))
    );
    let short = service.sale(1, |_| ()).await;
    service.clock.advance_ms(25 * 3_600_000);
    check(orders(&short), "ann", 410, "ended").await;
    service.stop().await;
}

#[tokio::test]
async fn a_key_has_its_effect_once() {
    let service = Service::start().await;
    let operator = service.operator();
    let deposit = |amount| crate::node::http::common::named_deposit(&format!("d-{amount}"), amount);
    let path = "/v1/accounts/sam/deposits";
    let first = service.post_key(path, &operator, "k1", deposit(500)).await;
    // A key in quotation marks is the same key.
    let quoted = "\"k1\"";
    let again = service
        .post_key(path, &operator, quoted, deposit(500))
        .await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.body, again.body);
    assert_eq!(service.balance("sam").await, 500);
    service
        .post_key(path, &operator, "k1", deposit(501))
        .await
        .assert_problem(422, "key-reused");
    let other = "/v1/accounts/tom/deposits";
    service
        .post_key(other, &operator, "k1", deposit(500))
        .await
        .assert_problem(422, "key-reused");
    assert_eq!(
        service
            .post_key(
                path,
                &operator,
                "k2",
                crate::node::http::common::named_deposit("again", 500)
            )
            .await
            .status,
        201
    );
    assert_eq!(service.balance("sam").await, 1_000);

    let sam = service.token("sam", "send claim");
    let first = service
        .post_key("/v1/red-packets", &sam, "p", packet(1_000, 2))
        .await;
    assert_eq!(first.status, 201);
    let id = first.text("id");
    // A retry after a restart returns the existing packet.
    let service = service.restart().await;
    service.clock.advance_ms(60_000);
    let again = service
        .post_key("/v1/red-packets", &sam, "p", packet(1_000, 2))
        .await;
    assert_eq!((again.status, again.text("id")), (200, id.clone()));
    for field in ["commitment", "created_at"] {
        assert_eq!(again.text(field), first.text(field));
    }
    assert_eq!(service.balance("sam").await, 0);
    service
        .post_key("/v1/red-packets", &sam, "p", packet(1_000, 3))
        .await
        .assert_problem(422, "key-reused");

    let first = service.post_key("/v1/sales", &operator, "s", sale(1)).await;
    let again = service.post_key("/v1/sales", &operator, "s", sale(1)).await;
    assert_eq!(
        (first.status, again.status, first.text("id")),
        (201, 200, again.text("id"))
    );

    let many = service
        .sale(9, |body| body["per_user_limit"] = json!(9))
        .await;
    let (path, ann) = (
        format!("/v1/sales/{many}/orders"),
        service.token("ann", "claim"),
    );
    let first = service
        .post_key(&path, &ann, "o", json!({ "quantity": 2 }))
        .await;
    let again = service
        .post_key(&path, &ann, "o", json!({ "quantity": 2 }))
        .await;
    assert_eq!(
        (first.status, again.status, &first.body),
        (201, 200, &again.body)
    );
    service
        .post_key(&path, &ann, "o", json!({ "quantity": 3 }))
        .await
        .assert_problem(422, "key-reused");

    let order = format!("/v1/orders/{}/payment", first.text("id"));
    assert_eq!(
        service
            .post_key(&order, &operator, "y", paid("a", 1_000))
            .await
            .status,
        200
    );
    assert_eq!(
        service
            .post_key(&order, &operator, "y", paid("a", 1_000))
            .await
            .status,
        200
    );
    service
        .post_key(&order, &operator, "y", paid("b", 1_000))
        .await
        .assert_problem(422, "key-reused");
    let pause = |id: &str| format!("/v1/campaigns/{id}/pause");
    assert_eq!(
        service
            .post_key(&pause(&many), &operator, "z", json!({}))
            .await
            .status,
        200
    );
    service
        .post_key(&pause(&id), &operator, "z", json!({}))
        .await
        .assert_problem(422, "key-reused");
    service.stop().await;
}

#[tokio::test]
async fn money_that_is_not_there_is_not_sent() {
    let service = Service::start().await;
    let sam = service.token("sam", "send");
    let poor = service
        .post_key("/v1/red-packets", &sam, "k", packet(1_000, 2))
        .await;
    poor.assert_problem(409, "insufficient-funds");
    service.deposit("sam", 1_000).await;
    // The same request may be repeated once the account has the money.
    assert_eq!(
        service
            .post_key("/v1/red-packets", &sam, "k", packet(1_000, 2))
            .await
            .status,
        201
    );
    assert_eq!(service.balance("sam").await, 0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_of_one_user_get_one_grant() {
    let service = Arc::new(Service::start().await);
    let id = service.red_packet(500, |_| ()).await;
    let (path, token) = (
        format!("/v1/red-packets/{id}/claims"),
        service.token("ann", "claim"),
    );
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let (service, path, token) = (Arc::clone(&service), path.clone(), token.clone());
        tasks.spawn(async move { service.act(&path, &token).await });
    }
    let replies = tasks.join_all().await;
    let of_status = |status| {
        replies
            .iter()
            .filter(|reply| reply.status == status)
            .count()
    };
    assert_eq!((of_status(201), of_status(200)), (1, 999));
    assert!(replies.iter().all(|reply| reply.body == replies[0].body));
    let state = call(
        service.addr,
        "GET",
        &format!("/v1/campaigns/{id}/state"),
        None,
        &[],
        None,
    )
    .await;
    assert_eq!(state.json()["granted"], json!(1));
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(
        text.contains("qiang_claims_total{outcome=\"granted\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("qiang_claims_total{outcome=\"already_granted\"} 999\n"),
        "{text}"
    );
    let replayed = "qiang_gate_answers_total{reason=\"already_granted\"} ";
    assert!(text.contains(replayed), "{text}");
    let route = "_count{method=\"POST\",route=\"/v1/red-packets/{id}/claims\"} 1000\n";
    assert!(text.contains(route), "{text}");
}

#[tokio::test]
async fn operators_see_how_it_is() {
    let service = Service::start().await;
    let open = async |path: &str| call(service.addr, "GET", path, None, &[], None).await;
    assert_eq!(open("/healthz").await.status, 200);
    // The start submits work for drafts in the background.
    let mut ready = open("/readyz").await;
    while ready.json()["queue_length"] != json!(0) {
        ready = open("/readyz").await;
    }
    assert_eq!(
        (ready.status, &ready.json()["queue_length"]),
        (200, &json!(0))
    );
    assert_eq!(
        open("/openapi.json").await.json()["openapi"],
        json!("3.1.0")
    );
    let docs = open("/docs/").await;
    assert_eq!(
        (docs.status, docs.header("content-type")),
        (200, "text/html")
    );
    assert!(
        !String::from_utf8_lossy(&docs.body).contains("https://"),
        "the page loads from elsewhere"
    );
    service.stop().await;
}
