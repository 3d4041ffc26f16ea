//! Details of problems: the faulty field, its limits in the field's unit, and no misleading text.

use crate::node::http::common::{Service, cursor, packet, sale};
use serde_json::{Value, json};

#[tokio::test]
async fn problems_of_a_field_name_it_and_say_its_limits() {
    let service = Service::start().await;
    service.deposit("olga", 1_000_000).await;
    let token = service.token("olga", "send admin");
    let check = async |path: &str, body: Value, pointer: &str, said: &str| {
        let reply = service.post(path, &token, body.clone()).await;
        reply.assert_problem(422, "invalid");
        let problem = reply.json();
        let errors = problem["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{problem}");
        assert_eq!(errors[0]["pointer"], pointer, "{problem}");
        assert_eq!(errors[0]["detail"], problem["detail"], "{problem}");
        assert!(reply.text("detail").contains(said), "{said}: {problem}");
    };
    let with = |mut body: Value, pointer: &str, value: Value| {
        *body.pointer_mut(pointer).unwrap() = value;
        body
    };
    let sales = async |pointer: &str, value: Value, said: &str| {
        let body = with(sale(5), pointer, value);
        check("/v1/sales", body, &format!("#{pointer}"), said).await;
    };
    sales(
        "/hold_seconds",
        json!(0),
        "at least 1 and at most 2592000 seconds",
    )
    .await;
    sales(
        "/hold_seconds",
        json!(-1),
        "a whole number from 0 to 4294967295",
    )
    .await;
    sales("/stock", json!(0), "1 to 9007199254740991 units").await;
    sales("/stock", json!("5"), "a whole number").await;
    sales("/per_user_limit", json!(6), "up to its stock").await;
    let most = "costs at most 9007199254740991 minor units";
    sales(
        "/unit_price/amount",
        json!(10_000_000_000_000_000_i64),
        most,
    )
    .await;
    sales("/unit_price/amount", json!(-1), "0 or more").await;
    sales("/unit_price/currency", json!("cny"), "ISO 4217").await;
    for blank in ["", " ", "\u{3000}\u{200b}", "\u{3164}\u{2800}\u{ad}"] {
        sales("/title", json!(blank), "not all of them are blank").await;
    }
    for control in ["a\u{202e}b", "\u{2066}a\u{2069}", "a\u{2028}b", "a\nb"] {
        sales("/title", json!(control), "direction of text").await;
    }
    let window = |starts_at: &str, ends_at: &str| {
        let mut body = sale(5);
        (body["starts_at"], body["ends_at"]) = (json!(starts_at), json!(ends_at));
        body
    };
    let now = "2026-11-22T12:00:00Z";
    for (starts_at, ends_at, pointer, said) in [
        (
            now,
            "9999-06-01T00:00:00Z",
            "#/ends_at",
            "before the year 9999",
        ),
        (
            "9999-06-01T00:00:00Z",
            "9999-06-02T00:00:00Z",
            "#/starts_at",
            "1970 to 9998",
        ),
        ("1969-06-01T00:00:00Z", now, "#/starts_at", "1970 to 9998"),
        (now, now, "#/ends_at", "ends after it starts"),
        (
            "2026-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z",
            "#/ends_at",
            "over already",
        ),
        ("tomorrow", now, "#/starts_at", "RFC 3339"),
    ] {
        check("/v1/sales", window(starts_at, ends_at), pointer, said).await;
    }
    for (split, pointer, said) in [
        (
            json!({ "rule": "normal", "min": 1 }),
            "#/split/max",
            "needs `max`",
        ),
        (
            json!({ "rule": "equal", "min": 1 }),
            "#/split/min",
            "has no `min`",
        ),
        (
            json!({ "rule": "lazy", "min": 900 }),
            "#/total/amount",
            "too little",
        ),
        (
            json!({ "rule": "fair" }),
            "#/split/rule",
            "normal, double_average, equal, lazy",
        ),
        (json!({}), "#/split/rule", "missing field `rule`"),
    ] {
        let body = with(packet(1_000, 2), "/split", split);
        check("/v1/red-packets", body, pointer, said).await;
    }
    let deposits = "/v1/accounts/ann/deposits";
    let more = json!({ "reference": "a", "amount": 1, "currency": "CNY", "a/b": 1 });
    check(deposits, more, "#/a~1b", "unknown field").await;
    let less = json!({ "amount": 1, "currency": "CNY" });
    check(deposits, less, "#/reference", "missing field").await;
    service.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_named_all_at_once() {
    let service = Service::start().await;
    service.deposit("olga", 1_000_000).await;
    let token = service.token("olga", "send admin");
    let check = async |path: &str, body: Value, wrong: &[&str]| {
        let reply = service.post(path, &token, body).await;
        reply.assert_problem(422, "invalid");
        let problem = reply.json();
        let errors = problem["errors"].as_array().unwrap();
        let named: Vec<_> = errors
            .iter()
            .map(|it| it["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(named, wrong, "{problem}");
        assert_eq!(errors[0]["detail"], problem["detail"], "{problem}");
        assert!(
            errors.iter().all(|it| it["parameter"].is_null()),
            "{problem}"
        );
    };
    let mut wrong = sale(5);
    (wrong["per_user_limit"], wrong["hold_seconds"]) = (json!(6), json!(0));
    (wrong["title"], wrong["admission_percent"]) = (json!(" "), json!(7));
    wrong["unit_price"]["amount"] = json!(-1);
    let all = [
        "#/per_user_limit",
        "#/unit_price/amount",
        "#/hold_seconds",
        "#/title",
        "#/admission_percent",
    ];
    check("/v1/sales", wrong.clone(), &all).await;
    // Limits that depend on the stock are not reported if the stock is invalid.
    wrong["stock"] = json!(0);
    let all = [
        "#/stock",
        "#/unit_price/amount",
        "#/hold_seconds",
        "#/title",
        "#/admission_percent",
    ];
    check("/v1/sales", wrong, &all).await;
    let mut wrong = packet(1, 2);
    wrong["title"] = json!(" ");
    check(
        "/v1/red-packets",
        wrong.clone(),
        &["#/total/amount", "#/title"],
    )
    .await;
    let batch = json!({ "red_packets": [{ "idempotency_key": "k", "red_packet": wrong }] });
    let within = "#/red_packets/0/red_packet";
    let all = [format!("{within}/total/amount"), format!("{within}/title")];
    check(
        "/v1/red-packets/batch",
        batch,
        &all.each_ref().map(String::as_str),
    )
    .await;
    service.stop().await;
}

#[tokio::test]
async fn parameters_that_are_wrong_are_named() {
    let service = Service::start().await;
    let token = service.operator();
    let check = async |path: &str, headers: &[(&str, &str)], wrong: &[&str]| {
        let method = if headers.is_empty() { "GET" } else { "POST" };
        let reply = crate::node::http::common::call(
            service.addr,
            method,
            path,
            Some(&token),
            headers,
            None,
        )
        .await;
        assert!([400, 422].contains(&reply.status), "{path}: {reply:?}");
        let problem = reply.json();
        let errors = problem["errors"]
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {problem}"));
        let named: Vec<_> = errors
            .iter()
            .map(|it| it["parameter"].as_str().unwrap())
            .collect();
        assert_eq!(named, wrong, "{path}: {problem}");
        for error in errors {
            assert_eq!(error["detail"], problem["detail"], "{problem}");
            assert!(error["pointer"].is_null(), "{problem}");
        }
    };
    for (path, wrong) in [
        ("/v1/sales/x", "id"),
        ("/v1/accounts/%20", "user"),
        ("/v1/accounts/ann/deposits/x", "id"),
        ("/v1/accounts/%20/deposits/x", "user"),
        ("/v1/partitions/x", "partition"),
        ("/v1/sales?limit=x", "limit"),
        ("/v1/sales?limit=0", "limit"),
        ("/v1/sales?limit=1&limit=2", "limit"),
        ("/v1/sales?phase=x", "phase"),
        ("/v1/sales?colour=red", "colour"),
        ("/v1/sales?after=x", "after"),
        ("/v1/red-packets?product_id=x", "product_id"),
        ("/v1/accounts/ann/orders?state=x", "state"),
        ("/v1/accounts/ann/postings?kind=x", "kind"),
        ("/v1/operation-log?action=x", "action"),
    ] {
        check(path, &[], &[wrong]).await;
    }
    check("/v1/sales?all=true&owner=ann", &[], &["owner", "all"]).await;
    let pause = format!("/v1/campaigns/{}/pause", service.sale(5, |_| ()).await);
    for keys in [
        &[("idempotency-key", "\"a")][..],
        &[("idempotency-key", "a"), ("idempotency-key", "b")],
    ] {
        check(&pause, keys, &["Idempotency-Key"]).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn types_of_problems_lead_to_pages() {
    let service = Service::start().await;
    let problem = service.get("/v1/sales/x", "").await.text("type");
    let page = service.get(&problem, "").await;
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(text.contains("<h1>A valid token is needed</h1>"), "{text}");
    let all = service.get("/problems", "").await;
    let all = String::from_utf8(all.body.to_vec()).unwrap();
    let links: Vec<_> = all.split("href=\"").skip(1).collect();
    assert!(links.len() > 40, "{all}");
    for link in links {
        let path = link.split('"').next().unwrap();
        assert_eq!(service.get(path, "").await.status, 200, "{path}");
    }
    let unknown = service.get("/problems/x", "").await;
    unknown.assert_problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn titles_in_any_script_are_taken() {
    let service = Service::start().await;
    for title in ["恭喜发财", "تخفيضات\u{200f}!", "👨‍👩‍👧", " a "] {
        service.sale(5, |body| body["title"] = json!(title)).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn who_has_nothing_is_not_told_of_having_as_much_as_allowed() {
    let service = Service::start().await;
    let id = service
        .sale(5, |body| body["per_user_limit"] = json!(2))
        .await;
    let token = service.token("ann", "claim");
    let path = format!("/v1/sales/{id}/orders");
    let reply = service.post(&path, &token, json!({ "quantity": 3 })).await;
    reply.assert_problem(409, "limit-reached");
    let problem = reply.json();
    assert_eq!(
        (&problem["limit"], &problem["held"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(
        problem["title"],
        "That is more than the campaign allows a user"
    );
    assert_eq!(
        problem["detail"],
        "a user may have 2 here, and this one has 0"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_full_last_page_is_the_last() {
    let service = Service::start().await;
    let id = service.red_packet(5, |_| ()).await;
    let path = format!("/v1/red-packets/{id}/claims");
    for user in ["ann", "bob", "cid", "dan"] {
        let reply = service.act(&path, &service.token(user, "claim")).await;
        assert_eq!(reply.status, 201);
    }
    let token = service.token("eve", "");
    for (query, count, next) in [
        ("limit=3", 3, json!(cursor("shares", "3"))),
        ("limit=4", 4, Value::Null),
        ("limit=5", 4, Value::Null),
        ("limit=2&after=c2hhcmVzOjI", 2, Value::Null),
        ("limit=2&after=c2hhcmVzOjE", 2, json!(cursor("shares", "3"))),
        ("limit=1000&after=c2hhcmVzOjQ", 0, Value::Null),
        ("from_number=3", 2, Value::Null),
        ("from_number=2&limit=2", 2, json!(cursor("shares", "3"))),
        ("from_number=2&limit=2&after=c2hhcmVzOjM", 1, Value::Null),
        ("from_number=5", 0, Value::Null),
    ] {
        let page = service.get(&format!("{path}?{query}"), &token).await.json();
        assert_eq!(page["data"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(page["next"], next, "{query}");
    }
    service.stop().await;
}
