//! Numbers, times and texts in bodies, as the document describes them.

use crate::node::http::common::{Service, send};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::json;

/// The code `XXX` means no currency.
#[tokio::test]
async fn nothing_new_is_made_with_money_of_no_currency() {
    let service = Service::start().await;
    let none = json!({ "amount": 100, "currency": "XXX" });
    let mut packet = crate::node::http::common::packet(100, 1);
    packet["total"] = none.clone();
    let mut sale = crate::node::http::common::sale(1);
    sale["unit_price"] = none.clone();
    for (path, token, body, pointer) in [
        (
            "/v1/accounts/sam/deposits",
            service.operator(),
            json!({ "reference": "none", "amount": 100, "currency": "XXX" }),
            "#/currency",
        ),
        (
            "/v1/red-packets",
            service.token("sam", "send"),
            packet,
            "#/total/currency",
        ),
        (
            "/v1/sales",
            service.operator(),
            sale,
            "#/unit_price/currency",
        ),
    ] {
        let refused = service.post(path, &token, body).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{path}");
    }
    // A refused deposit spends no key, and a used key does not change the refusal.
    let deposit = async |currency: &str| {
        let (path, token) = ("/v1/accounts/sam/deposits", service.operator());
        let body = json!({ "reference": "d", "amount": 100, "currency": currency });
        service.post_key(path, &token, "k", body).await
    };
    deposit("XXX").await.assert_problem(422, "invalid");
    assert_eq!(deposit("CNY").await.status, 201);
    deposit("XXX").await.assert_problem(422, "invalid");
    service.stop().await;
}

#[tokio::test]
async fn whole_numbers_and_times_are_read_as_the_document_has_them() {
    let service = Service::start().await;
    let operator = service.operator();
    let deposit = async |body: &'static str| {
        let request = Request::post("/v1/accounts/sam/deposits")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {operator}"));
        let body = Full::new(Bytes::from_static(body.as_bytes()));
        send(service.addr, request.body(body).unwrap()).await
    };
    let made = deposit(r#"{"reference":"a","amount":100.0,"currency":"CNY"}"#).await;
    assert_eq!(
        (made.status, &made.json()["amount"]["amount"]),
        (201, &json!(100))
    );
    deposit(r#"{"reference":"b","amount":100.5,"currency":"CNY"}"#)
        .await
        .assert_problem(422, "invalid");
    for (ends_at, said) in [
        (json!("9999-12-31T23:59:59Z"), "before the year 9999"),
        (json!(1_795_262_400_000_i64), "and no number"),
        (json!("1795262400000"), "not as a number"),
    ] {
        let mut body = crate::node::http::common::sale(1);
        body["ends_at"] = ends_at;
        let refused = service.post("/v1/sales", &operator, body).await;
        refused.assert_problem(422, "invalid");
        assert!(refused.json().to_string().contains(said), "{refused:?}");
    }
    // HTML forms send two characters as a line break.
    let id = service
        .sale(1, |sale| sale["description"] = json!("black\r\n256 GB"))
        .await;
    let sale = service.get(&format!("/v1/sales/{id}"), &operator).await;
    assert_eq!(sale.json()["description"], "black\n256 GB");
    service.stop().await;
}
