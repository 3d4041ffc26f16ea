//! Payments of another amount or currency than the order's price, from the report to the refund.

use crate::node::http::common::{Service, call, paid};
use serde_json::{Value, json};

fn money(amount: i64, currency: &str) -> Value {
    json!({ "amount": amount, "currency": currency })
}

fn other(reference: &str, amount: i64, currency: &str) -> Value {
    json!({ "reference": reference, "amount": money(amount, currency) })
}

/// No payment is refused. A refund is due in the amount and currency of the payment, and remains listed until it is
/// paid.
#[tokio::test]
async fn another_amount_is_owed_back_until_it_is_refunded() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let sale = service.sale(1, |_| ()).await;
    let order = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    let order = order.text("id");
    let path = format!("/v1/orders/{order}");
    let (payment, refunds) = (format!("{path}/payment"), format!("{path}/refunds"));
    for (reference, amount, currency) in [
        ("under", 499, "CNY"),
        ("over", 501, "CNY"),
        ("dollars", 500, "USD"),
    ] {
        for _ in 0..2 {
            let body = other(reference, amount, currency);
            let reply = service.post(&payment, &operator, body).await;
            let state = reply.json()["order"]["state"].clone();
            assert_eq!(
                (reply.status, reply.text("outcome").as_str(), state),
                (200, "refund_due", json!("held")),
                "{reply:?}"
            );
        }
        let seen = format!("/v1/payments/{reference}");
        let seen = service.get(&seen, &ann).await.json();
        assert_eq!(
            (&seen["outcome"], &seen["amount"]),
            (&json!("refund_due"), &money(amount, currency))
        );
    }
    let again = service.post(&payment, &operator, paid("under", 500)).await;
    assert_eq!(again.text("outcome"), "refund_due", "{again:?}");
    assert_eq!(again.json()["order"]["refundable_payments"], json!(3));
    // The first report of a reference sets its amount.
    let seen = service.get("/v1/payments/under", &ann).await.json();
    assert_eq!(seen["amount"], money(499, "CNY"));
    let reply = service.post(&payment, &operator, paid("p", 500)).await;
    assert_eq!(reply.text("outcome"), "paid", "{reply:?}");
    let again = service
        .post(&payment, &operator, other("p", 1, "CNY"))
        .await;
    assert_eq!(again.text("outcome"), "paid", "{again:?}");
    for (amount, currency) in [
        (0, "CNY"),
        (-1, "CNY"),
        (0, "USD"),
        (9_007_199_254_740_992, "CNY"),
        (1, "XXX"),
        (1, "QQQ"),
    ] {
        let body = other("none", amount, currency);
        let reply = service.post(&payment, &operator, body).await;
        reply.assert_problem(422, "invalid");
    }

    let seen = service.get(&refunds, &ann).await.json();
    let dollars = json!({ "due": money(500, "USD"), "refunded": money(0, "USD") });
    assert_eq!(
        (&seen["due"], &seen["other_currencies"], &seen["settled"]),
        (&money(1_000, "CNY"), &json!([dollars]), &json!(true))
    );
    let listed = service
        .get("/v1/refunds-due?limit=1&all=true", &operator)
        .await;
    let listed = listed.json();
    let row = |amount: i64, currency: &str| {
        json!({ "order": order, "user": "ann", "due": money(amount, currency),
            "refunded": money(0, currency), "outstanding": money(amount, currency) })
    };
    assert_eq!(
        (&listed["data"], &listed["next"]),
        (&json!([row(1_000, "CNY"), row(500, "USD")]), &Value::Null)
    );
    let refund = async |reference: &str, amount: i64, currency: &str| {
        let body = other(reference, amount, currency);
        service.post(&refunds, &operator, body).await
    };
    let less = refund("r-1", 501, "USD").await;
    less.assert_problem(409, "refund-exceeds-due");
    let euros = refund("r-1", 1, "EUR").await;
    euros.assert_problem(409, "refund-exceeds-due");
    for (reference, amount, currency) in [("r-1", 500, "USD"), ("r-2", 1_000, "CNY")] {
        let made = refund(reference, amount, currency).await;
        assert_eq!(
            (made.status, &made.json()["amount"]),
            (201, &money(amount, currency)),
            "{made:?}"
        );
    }
    let left = service.get("/v1/refunds-due?all=true", &operator).await;
    assert_eq!(left.json()["data"], json!([]));

    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for (labels, count) in [
        (r#"outcome="paid",amount="price""#, 1),
        (r#"outcome="refund_due",amount="other""#, 6),
        (r#"outcome="refund_due",amount="price""#, 0),
        (r#"outcome="refund_due",amount="differs""#, 1),
        (r#"outcome="paid",amount="differs""#, 1),
    ] {
        let line = format!("qiang_payments_total{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line}");
    }
    service.stop().await;
}

/// A refused report is counted by its problem, and found among the actions of its order.
#[tokio::test]
async fn a_refused_report_is_counted_and_listed() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let sale = service.sale(2, |_| ()).await;
    let mut orders = Vec::new();
    for user in ["ann", "bob"] {
        let token = service.token(user, "claim");
        let made = service
            .act(&format!("/v1/sales/{sale}/orders"), &token)
            .await;
        orders.push(made.text("id"));
    }
    let unknown = format!("{sale}-9");
    let path = |order: &str| format!("/v1/orders/{order}/payment");
    let first = service
        .post(&path(&orders[0]), &operator, paid("p", 500))
        .await;
    assert_eq!(first.text("outcome"), "paid", "{first:?}");
    let mut stranger = paid("s", 500);
    stranger["user"] = json!("ann");
    let cases = [
        (&orders[1], paid("p", 500), (409, "payment-used")),
        (&orders[1], stranger, (409, "user-mismatch")),
        (&orders[1], other("x", 1, "XXX"), (422, "invalid")),
        (&unknown, paid("u", 500), (404, "not-found")),
    ];
    for (order, body, (status, problem)) in &cases {
        // The payment service repeats a refused report.
        for _ in 0..2 {
            let reply = service.post(&path(order), &operator, body.clone()).await;
            reply.assert_problem(*status, problem);
        }
    }
    let broken = json!({ "reference": "b", "amount": "500" });
    let reply = service.post(&path(&orders[1]), &operator, broken).await;
    reply.assert_problem(422, "invalid");

    let listed = async |order: &str| -> Vec<Value> {
        let path = format!("/v1/operation-log?subject={order}");
        let body = service.get(&path, &operator).await.json();
        let actions = body["data"].as_array().unwrap().iter();
        let row = |it: &Value| json!([it["actor"], it["action"], it["detail"]]);
        let mut rows: Vec<_> = actions.map(row).collect();
        // Reports of one millisecond have no order.
        rows.sort_by_key(Value::to_string);
        rows
    };
    let refused = |(_, body, (_, problem)): &(&String, Value, (u16, &str))| {
        let (amount, currency) = (&body["amount"]["amount"], &body["amount"]["currency"]);
        json!(["olga", "pay", { "reference": body["reference"], "amount": amount,
            "currency": currency, "outcome": "refused", "problem": problem }])
    };
    // A report that cannot be read is listed if its order and its reference can be.
    let unreadable = json!(["olga", "pay", { "reference": "b", "amount": "\"500\"",
        "outcome": "refused", "problem": "invalid" }]);
    let [of_bob @ .., of_unknown] = &cases;
    let mut expected: Vec<_> = of_bob.iter().map(refused).chain([unreadable]).collect();
    expected.sort_by_key(Value::to_string);
    assert_eq!(listed(&orders[1]).await, expected);
    assert_eq!(listed(&unknown).await, [refused(of_unknown)]);
    assert_eq!(listed(&orders[0]).await.len(), 1);

    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for (problem, count) in [
        ("payment-used", 2),
        ("user-mismatch", 2),
        ("invalid", 3),
        ("not-found", 2),
        ("key-reused", 0),
    ] {
        let series = "qiang_payment_reports_refused_total";
        let line = format!("{series}{{problem=\"{problem}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}");
    }
    service.check_refusals(&sale, &orders, &unknown).await;

    // A refused report is no earlier report of its reference.
    let token = service
        .get(&format!("/v1/orders/{}", orders[0]), &ann)
        .await;
    assert_eq!(token.json()["state"], json!("paid"));
    let reply = service
        .post(&path(&orders[1]), &operator, other("x", 500, "CNY"))
        .await;
    assert_eq!(reply.text("outcome"), "paid", "{reply:?}");
    service.stop().await;
}

impl Service {
    /// Refused reports are listed without their orders, and found by their references.
    async fn check_refusals(&self, sale: &str, orders: &[String], unknown: &str) {
        let operator = self.operator();
        let bob = self.token("bob", "claim");
        let read = async |query: &str| {
            let body = self
                .get(&format!("/v1/operation-log?{query}"), &operator)
                .await;
            let body = body.json();
            let actions = body["data"].as_array().unwrap().clone();
            let references: Vec<_> = actions
                .iter()
                .map(|it| it["detail"]["reference"].as_str().unwrap_or("").to_owned())
                .collect();
            (references, body["next"].clone())
        };
        let (mut listed, next) = read("action=pay&outcome=refused").await;
        assert_eq!(next, Value::Null);
        listed.sort();
        assert_eq!(listed, ["b", "p", "s", "u", "x"]);
        assert_eq!(read("outcome=refused&action=create").await.0.len(), 0);
        // In pages, the newest first.
        let (mut paged, mut after) = (Vec::new(), String::new());
        loop {
            let query = format!("outcome=refused&order=newest&limit=2{after}");
            let (page, next) = read(&query).await;
            paged.extend(page);
            let Some(next) = next.as_str() else { break };
            after = format!("&after={next}");
        }
        let (all, _) = read("outcome=refused").await;
        assert_eq!(paged.iter().rev().cloned().collect::<Vec<_>>(), all);
        let (pays, _) = read("action=pay").await;
        assert_eq!(pays.len(), 6);
        let (mut created, _) = read("action=create&limit=1").await;
        assert_eq!(created.pop().as_deref(), Some(""));
        for query in ["", "outcome=paid", "action=none", "subject=a&action=pay"] {
            let path = format!("/v1/operation-log?{query}");
            let reply = self.get(&path, &operator).await;
            match query {
                "" => assert_eq!(reply.status, 200),
                _ => reply.assert_problem(400, "bad-request"),
            }
        }
        let hidden = self.get("/v1/operation-log?outcome=refused", &bob).await;
        hidden.assert_problem(403, "forbidden");

        for (reference, order, amount, problem) in [
            (
                "s",
                &orders[1][..],
                json!({ "amount": 500, "currency": "CNY" }),
                "user-mismatch",
            ),
            (
                "u",
                unknown,
                json!({ "amount": 500, "currency": "CNY" }),
                "not-found",
            ),
            ("b", &orders[1], Value::Null, "invalid"),
        ] {
            let path = format!("/v1/payments/{reference}");
            let found = self.get(&path, &operator).await.json();
            assert_eq!(
                [
                    &found["order"],
                    &found["outcome"],
                    &found["amount"],
                    &found["problem"]
                ],
                [&json!(order), &json!("refused"), &amount, &json!(problem)],
                "{found}"
            );
            assert_eq!(found["user"], Value::Null);
            assert!(order.starts_with(sale));
            let hidden = self.get(&path, &bob).await;
            hidden.assert_problem(404, "not-found");
        }
        // A payment that was recorded is found, not a refused report with its reference.
        let paid = self.get("/v1/payments/p", &operator).await.json();
        assert_eq!(
            (&paid["outcome"], &paid["order"]),
            (&json!("paid"), &json!(orders[0]))
        );
        assert_eq!(paid["problem"], Value::Null);
    }
}

/// A sale's policy accepts other amounts. The seller gets an accepted amount, and a return makes all of it due.
#[tokio::test]
async fn an_accepted_amount_pays_an_order() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let tolerant = |body: &mut Value| {
        body["payment_policy"] = json!("accept_with_tolerance");
        body["payment_tolerance"] = money(5, "CNY");
    };
    let sale = service.sale(9, tolerant).await;
    let seen = service.get(&format!("/v1/sales/{sale}"), &ann).await.json();
    assert_eq!(
        (&seen["payment_policy"], &seen["payment_tolerance"]),
        (&json!("accept_with_tolerance"), &money(5, "CNY"))
    );
    let order = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    let path = format!("/v1/orders/{}", order.text("id"));
    let payment = format!("{path}/payment");
    for (reference, amount, currency, outcome) in [
        ("under", 494, "CNY", "refund_due"),
        ("dollars", 500, "USD", "refund_due"),
        ("within", 495, "CNY", "paid"),
        ("within", 495, "CNY", "paid"),
        ("within", 500, "CNY", "paid"),
        ("again", 505, "CNY", "refund_due"),
    ] {
        let body = other(reference, amount, currency);
        let reply = service.post(&payment, &operator, body).await;
        assert_eq!(reply.text("outcome"), outcome, "{reply:?}");
    }
    let seen = service.get("/v1/payments/within", &ann).await.json();
    assert_eq!(
        (&seen["outcome"], &seen["amount"]),
        (&json!("paid"), &money(495, "CNY"))
    );
    let refunds = format!("{path}/refunds");
    let due = service.get(&refunds, &ann).await.json();
    assert_eq!(due["due"], money(494 + 505, "CNY"));
    let returned = service
        .post(&format!("{path}/return"), &operator, json!({}))
        .await;
    assert_eq!(returned.status, 200, "{returned:?}");
    let due = service.get(&refunds, &ann).await.json();
    assert_eq!(due["due"], money(494 + 505 + 495, "CNY"));
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for (labels, count) in [
        (r#"outcome="paid",amount="accepted""#, 2),
        (r#"outcome="paid",amount="differs""#, 1),
        (r#"outcome="refund_due",amount="other""#, 3),
    ] {
        let line = format!("qiang_payments_total{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line}");
    }
    service.stop().await;
}

/// A sale shows its default policy. A policy that does not fit the price is refused.
#[tokio::test]
async fn a_payment_policy_fits_its_sale() {
    let service = Service::start().await;
    let seller = service.token("seller", "campaigns:write");
    let sale = service.sale(9, |_| ()).await;
    let seen = service.get(&format!("/v1/sales/{sale}"), &seller).await;
    let seen = seen.json();
    assert_eq!(
        (&seen["payment_policy"], &seen["payment_tolerance"]),
        (&json!("owed"), &Value::Null)
    );
    let none = Value::Null;
    let (tolerance, no_tolerance) = (money(5, "CNY"), money(0, "CNY"));
    for (price, policy, tolerance, pointer) in [
        (500, "accept_with_tolerance", &none, "#/payment_tolerance"),
        (500, "accept_over", &tolerance, "#/payment_tolerance"),
        (500, "owed", &tolerance, "#/payment_tolerance"),
        (
            500,
            "accept_with_tolerance",
            &money(500, "CNY"),
            "#/payment_policy",
        ),
        (
            500,
            "accept_with_tolerance",
            &money(-1, "CNY"),
            "#/payment_policy",
        ),
        (
            500,
            "accept_with_tolerance",
            &money(5, "USD"),
            "#/payment_tolerance/currency",
        ),
        (0, "accept_over", &none, "#/payment_policy"),
        (
            0,
            "accept_with_tolerance",
            &no_tolerance,
            "#/payment_policy",
        ),
    ] {
        let mut body = json!({ "title": "phones", "stock": 9, "unit_price": money(price, "CNY"),
            "payment_policy": policy });
        if !tolerance.is_null() {
            body["payment_tolerance"] = tolerance.clone();
        }
        let reply = service.post("/v1/sales", &seller, body.clone()).await;
        reply.assert_problem(422, "invalid");
        let errors = reply.json()["errors"].clone();
        assert_eq!(errors[0]["pointer"], json!(pointer), "{body} {errors}");
    }
    let body = json!({ "title": "phones", "stock": 9, "unit_price": money(1, "CNY"),
        "payment_policy": "keep" });
    let reply = service.post("/v1/sales", &seller, body).await;
    assert!((400..500).contains(&reply.status), "{reply:?}");
    service.stop().await;
}

/// A price change must fit the sale's payment policy, which never changes.
#[tokio::test]
async fn a_price_that_the_payment_policy_does_not_allow_is_refused() {
    let service = Service::start().await;
    let operator = service.operator();
    let with = async |policy: &'static str, tolerance: Value| {
        let adjust = |body: &mut Value| {
            body["payment_policy"] = json!(policy);
            if !tolerance.is_null() {
                body["payment_tolerance"] = tolerance;
            }
        };
        service.sale(9, adjust).await
    };
    let tolerant = with("accept_with_tolerance", money(5, "CNY")).await;
    let generous = with("accept_over", Value::Null).await;
    for (sale, price, is_refused) in [
        (&tolerant, 5, true),
        (&tolerant, 0, true),
        (&tolerant, 6, false),
        (&generous, 0, true),
        (&generous, 1, false),
    ] {
        let path = format!("/v1/sales/{sale}");
        let body = json!({ "unit_price": money(price, "CNY") });
        let reply = call(
            service.addr,
            "PATCH",
            &path,
            Some(&operator),
            &[],
            Some(body),
        )
        .await;
        if is_refused {
            reply.assert_problem(422, "invalid");
            let pointer = reply.json()["errors"][0]["pointer"].clone();
            assert_eq!(pointer, json!("#/unit_price/amount"), "{reply:?}");
        } else {
            assert_eq!(reply.status, 200, "{reply:?}");
        }
    }
    service.stop().await;
}
