//! Refusals: invalid tokens, missing scopes, impossible input.

use crate::node::http::common::{
    SECRET, START_MS, Service, call, packet, paid, sale, send, sign, sign_with,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

const EXP: i64 = START_MS / 1_000 + 60;

#[tokio::test]
async fn tokens_that_do_not_hold() {
    let service = Service::start().await;
    let id = service.red_packet(9, |_| ()).await;
    let path = format!("/v1/red-packets/{id}/claims");
    let claims = |exp: i64| json!({ "sub": "ann", "scope": "claim", "exp": exp });
    let none = json!({ "alg": "none", "typ": "JWT" });
    let unsigned = {
        use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as B64};
        format!(
            "{}.{}.",
            B64.encode(none.to_string()),
            B64.encode(claims(EXP).to_string())
        )
    };
    let good = sign(&claims(EXP));
    let (message, _) = good.rsplit_once('.').unwrap();
    let altered = format!(
        "{}.{}",
        good.split_once('.').unwrap().0,
        sign(&json!({ "sub": "eve", "exp": EXP }))
            .split_once('.')
            .unwrap()
            .1
    );
    let swapped = format!(
        "{}.{}",
        altered.rsplit_once('.').unwrap().0,
        good.rsplit_once('.').unwrap().1
    );
    let hs512 = jsonwebtoken::encode(
        &jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS512),
        &claims(EXP),
        &jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes()),
    );
    let refused = [
        (
            "another key",
            sign_with("another-secret-that-is-32-bytes-long", &claims(EXP)),
        ),
        ("expired", sign(&claims(START_MS / 1_000 - 31))),
        ("no exp", sign(&json!({ "sub": "ann", "scope": "claim" }))),
        ("no sub", sign(&json!({ "exp": EXP, "scope": "claim" }))),
        (
            "bad sub",
            sign(&json!({ "sub": "an n", "exp": EXP, "scope": "claim" })),
        ),
        (
            "not yet",
            sign(&json!({ "sub": "ann", "exp": EXP, "nbf": EXP, "scope": "claim" })),
        ),
        (
            "for another audience",
            sign(&json!({ "sub": "ann", "exp": EXP, "aud": "x", "scope": "claim" })),
        ),
        ("another algorithm", hs512.unwrap()),
        ("not signed", unsigned),
        ("signature cut off", format!("{message}.")),
        ("payload of another token", swapped),
        ("no token at all", "x".to_owned()),
        ("empty", String::new()),
    ];
    for (what, token) in refused {
        let reply = call(service.addr, "POST", &path, Some(&token), &[], None).await;
        reply.assert_problem(401, "unauthenticated");
        assert!(
            reply.header("www-authenticate").starts_with("Bearer "),
            "{what}"
        );
        assert!(
            token.len() < 9 || !String::from_utf8_lossy(&reply.body).contains(&token),
            "{what}"
        );
    }
    let missing = call(service.addr, "POST", &path, None, &[], None).await;
    missing.assert_problem(401, "unauthenticated");
    assert_eq!(missing.header("www-authenticate"), "Bearer realm=\"qiang\"");
    let basic = call(
        service.addr,
        "POST",
        &path,
        None,
        &[("authorization", "Basic YTpi")],
        None,
    )
    .await;
    basic.assert_problem(401, "unauthenticated");
    // The leeway is 30 s: this one still holds, and so does the good one.
    for exp in [START_MS / 1_000 - 29, EXP] {
        assert!([200, 201].contains(&service.act(&path, &sign(&claims(exp))).await.status));
    }
    service.stop().await;
}

#[tokio::test]
async fn issuer_and_audience_when_asked_for() {
    let service = Service::start_with(|config, _| {
        config.auth.issuer = "us".to_owned();
        config.auth.audience = "qiang".to_owned();
    })
    .await;
    let check = async |extra: Value, status: u16| {
        let mut claims = json!({ "sub": "ann", "exp": EXP });
        claims
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let reply = service.get("/v1/accounts/ann", &sign(&claims)).await;
        assert_eq!(reply.status, status, "{extra}");
    };
    check(json!({ "iss": "us", "aud": "qiang" }), 200).await;
    check(json!({ "iss": "us", "aud": ["x", "qiang"] }), 200).await;
    check(json!({ "iss": "us", "aud": ["x"] }), 401).await;
    check(json!({ "iss": "them", "aud": "qiang" }), 401).await;
    check(json!({ "aud": "qiang" }), 401).await;
    check(json!({ "iss": "us" }), 401).await;
    service.stop().await;
}

#[tokio::test]
async fn scopes_and_other_peoples_things() {
    let service = Service::start().await;
    let packet_id = service.red_packet(9, |_| ()).await;
    let sale_id = service.sale(9, |_| ()).await;
    let check = async |path: String, scopes: &str, needed: &str, body: Option<Value>| {
        let token = service.token("ann", scopes);
        let reply = call(service.addr, "POST", &path, Some(&token), &[], body).await;
        reply.assert_problem(403, "forbidden");
        assert!(
            reply
                .header("www-authenticate")
                .contains(&format!("scope=\"{needed}\"")),
            "{path}"
        );
    };
    check(
        format!("/v1/red-packets/{packet_id}/claims"),
        "send admin",
        "claim",
        None,
    )
    .await;
    check(
        format!("/v1/sales/{sale_id}/orders"),
        "send admin claims",
        "claim",
        None,
    )
    .await;
    check(
        "/v1/red-packets".to_owned(),
        "claim admin",
        "send",
        Some(packet(100, 1)),
    )
    .await;
    check(
        "/v1/sales".to_owned(),
        "claim send",
        "campaigns:write",
        Some(sale(1)),
    )
    .await;
    let deposit = crate::node::http::common::deposit(1);
    check(
        "/v1/accounts/ann/deposits".to_owned(),
        "claim send",
        "deposit",
        Some(deposit),
    )
    .await;
    for verb in ["pause", "resume", "close"] {
        check(
            format!("/v1/campaigns/{packet_id}/{verb}"),
            "claim send",
            "campaigns:write:any",
            None,
        )
        .await;
    }
    service
        .get("/v1/accounts/sam", &service.token("ann", "claim send"))
        .await
        .assert_problem(403, "forbidden");
    assert_eq!(
        service
            .get("/v1/accounts/sam", &service.operator())
            .await
            .status,
        200
    );
    service.stop().await;
}

#[tokio::test]
async fn input_that_cannot_be() {
    let service = Service::start().await;
    service.deposit("sam", 1_000_000).await;
    let token = service.token("sam", "claim send admin");
    let check = async |path: &str, body: Value, status: u16, kind: &str| {
        let reply = service.post(path, &token, body.clone()).await;
        assert_eq!(reply.status, status, "{path} {body} {reply:?}");
        reply.assert_problem(status, kind);
    };
    let with = |mut body: Value, field: &str, value: Value| {
        body[field] = value;
        body
    };
    let packets = "/v1/red-packets";
    check(packets, json!({}), 422, "invalid").await;
    check(
        packets,
        with(packet(100, 2), "colour", json!("red")),
        422,
        "invalid",
    )
    .await;
    let long = "長".repeat(1_025);
    let control = ["\0", "two\nlines", "a\u{1b}[2J", "\u{7f}", "\u{85}"];
    for title in ["", &long].iter().chain(&control) {
        for (path, body) in [(packets, packet(100, 2)), ("/v1/sales", sale(5))] {
            check(path, with(body, "title", json!(title)), 422, "invalid").await;
        }
    }
    check(packets, packet(1, 2), 422, "invalid").await;
    check(packets, packet(-100, 2), 422, "invalid").await;
    check(packets, packet(100, 0), 422, "invalid").await;
    check(packets, packet(1_000_000, 100_001), 422, "invalid").await;
    for split in [
        json!({ "rule": "fair" }),
        json!({ "rule": "normal", "min": 1 }),
        json!({ "rule": "normal", "min": 60, "max": 70 }),
        json!({ "rule": "equal", "min": 1 }),
        json!({ "rule": "lazy", "max": 9 }),
        json!({ "rule": "lazy", "min": 0 }),
    ] {
        check(
            packets,
            with(packet(100, 2), "split", split),
            422,
            "invalid",
        )
        .await;
    }
    check(
        packets,
        with(packet(100, 2), "ends_at", json!("2026-11-21T11:59:59Z")),
        422,
        "invalid",
    )
    .await;
    check(
        packets,
        with(packet(100, 2), "starts_at", json!("tomorrow")),
        422,
        "invalid",
    )
    .await;
    check(
        packets,
        with(packet(100, 2), "ack", json!("paper")),
        422,
        "invalid",
    )
    .await;
    check(
        packets,
        with(packet(100, 2), "ack", json!("replica")),
        422,
        "ack-unavailable",
    )
    .await;
    let sales = "/v1/sales";
    check(sales, with(sale(1), "stock", json!(0)), 422, "invalid").await;
    check(
        sales,
        with(sale(1), "per_user_limit", json!(2)),
        422,
        "invalid",
    )
    .await;
    for percent in [1, 99, 10_001] {
        let sale = with(sale(1), "admission_percent", json!(percent));
        check(sales, sale, 422, "invalid").await;
    }
    check(
        sales,
        with(sale(1), "hold_seconds", json!(0)),
        422,
        "invalid",
    )
    .await;
    check(
        sales,
        with(sale(1), "hold_seconds", json!(31 * 86_400)),
        422,
        "invalid",
    )
    .await;
    check(sales, with(sale(1), "seller", json!("a b")), 422, "invalid").await;
    check(
        sales,
        with(
            sale(1),
            "unit_price",
            json!({ "amount": -1, "currency": "CNY" }),
        ),
        422,
        "invalid",
    )
    .await;
    let deposits = "/v1/accounts/sam/deposits";
    check(
        deposits,
        json!({ "reference": "d", "amount": 0, "currency": "CNY" }),
        422,
        "invalid",
    )
    .await;
    check(
        deposits,
        json!({ "reference": "d", "amount": -5, "currency": "CNY" }),
        422,
        "invalid",
    )
    .await;
    check(
        deposits,
        json!({ "reference": "d", "amount": 1.5, "currency": "CNY" }),
        422,
        "invalid",
    )
    .await;
    check(
        deposits,
        json!({ "reference": "d", "amount": 1, "currency": "RMB" }),
        422,
        "invalid",
    )
    .await;
    check(
        deposits,
        json!({ "reference": "d", "amount": i64::MAX, "currency": "CNY" }),
        422,
        "invalid",
    )
    .await;
    let id = service.sale(9, |_| ()).await;
    let orders = format!("/v1/sales/{id}/orders");
    check(&orders, json!({ "quantity": 0 }), 422, "invalid").await;
    check(&orders, json!({ "quantity": -1 }), 422, "invalid").await;
    check(&orders, json!({ "units": 1 }), 422, "invalid").await;
    check("/v1/red-packets/7/claims", json!({}), 400, "bad-request").await;
    check("/v1/orders/7/payment", paid("x", 500), 400, "bad-request").await;
    check(
        "/v1/accounts/a%20b/deposits",
        json!({ "reference": "d", "amount": 1, "currency": "CNY" }),
        400,
        "bad-request",
    )
    .await;
    check("/v1/accounts", json!({}), 404, "not-found").await;
    check("/healthz", json!({}), 405, "method-not-allowed").await;
    let unknown = format!("/v1/orders/{id}-9/payment");
    check(&unknown, paid("x", 500), 404, "not-found").await;
    check(&unknown, json!({ "reference": "x" }), 422, "invalid").await;
    check(
        &format!("/v1/orders/{id}-9/cancellation"),
        json!({}),
        404,
        "not-found",
    )
    .await;

    let get = async |path: &str, status: u16, kind: &str| {
        service.get(path, &token).await.assert_problem(status, kind)
    };
    get(&format!("/v1/red-packets/{id}"), 404, "unknown-campaign").await; // a sale
    get(
        &format!("/v1/red-packets/{id}/claims"),
        404,
        "unknown-campaign",
    )
    .await;
    let unknown = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    for path in ["sales", "red-packets"] {
        get(&format!("/v1/{path}/{unknown}"), 404, "unknown-campaign").await;
    }
    get(
        &format!("/v1/campaigns/{unknown}/state"),
        404,
        "unknown-campaign",
    )
    .await;
    let packet = service.red_packet(2, |_| ()).await;
    for query in ["limit=0", "limit=1001", "limit=x", "after=-1", "page=2"] {
        get(
            &format!("/v1/red-packets/{packet}/claims?{query}"),
            400,
            "bad-request",
        )
        .await;
    }
    service.stop().await;
}

#[tokio::test]
async fn bodies_that_are_no_json() {
    let service = Service::start_with(|config, _| config.server.body_bytes_max = 1_000).await;
    let token = service.operator();
    let post = async |content_type: &str, key: &str, body: Vec<u8>| {
        let request = Request::post("/v1/accounts/sam/deposits")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", content_type)
            .header("idempotency-key", key);
        send(
            service.addr,
            request.body(Full::new(Bytes::from(body))).unwrap(),
        )
        .await
    };
    let good = br#"{"reference":"d","amount":1,"currency":"CNY"}"#.to_vec();
    assert_eq!(
        post("application/json; charset=utf-8", "k", good.clone())
            .await
            .status,
        201
    );
    post("text/plain", "k", good.clone())
        .await
        .assert_problem(415, "media-type");
    post("application/jsonp", "k", good.clone())
        .await
        .assert_problem(415, "media-type");
    post("application/json", "a b", good.clone())
        .await
        .assert_problem(400, "bad-request");
    post("application/json", &"k".repeat(256), good.clone())
        .await
        .assert_problem(400, "bad-request");
    for open in ["\"k", "\"k\"k\"", "\"k\\\"", "\"k\\k\"", "\"\""] {
        post("application/json", open, good.clone())
            .await
            .assert_problem(400, "bad-request");
    }
    let keys = [("idempotency-key", "k"), ("idempotency-key", "k")];
    let (path, body) = ("/v1/accounts/sam/deposits", serde_json::from_slice(&good));
    call(service.addr, "POST", path, Some(&token), &keys, body.ok())
        .await
        .assert_problem(400, "bad-request");
    post("application/json", "k", b"{".to_vec())
        .await
        .assert_problem(400, "bad-request");
    post("application/json", "k", b"".to_vec())
        .await
        .assert_problem(400, "bad-request");
    post("application/json", "k", vec![0xff; 9])
        .await
        .assert_problem(400, "bad-request");
    post("application/json", "k", vec![b' '; 1_001])
        .await
        .assert_problem(413, "too-large");
    service.stop().await;
}
