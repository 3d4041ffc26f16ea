//! Changes of a sale's window, limit, price and admission over HTTP.

use std::time::Duration;

use crate::node::http::common::Service;
use serde_json::{Value, json};

#[tokio::test]
async fn the_terms_of_a_sale_are_changed() {
    let service = Service::start().await;
    let later = |body: &mut Value| {
        body["starts_at"] = json!("2026-11-21T13:00:00Z");
        body["ends_at"] = json!("2026-11-21T18:00:00Z");
    };
    let id = service.sale(5, later).await;
    let (path, operator) = (format!("/v1/sales/{id}"), service.operator());
    let change = |body: Value| service.patch(&path, &operator, body);
    let order = |user: &str, key: &str, units: u32| {
        let (path, token) = (format!("{path}/orders"), service.token(user, "claim"));
        let (service, key) = (&service, key.to_owned());
        let body = json!({ "quantity": units });
        async move { service.post_key(&path, &token, &key, body).await }
    };
    order("ann", "k", 1)
        .await
        .assert_problem(409, "not-started");
    for _ in 0..2 {
        let changed = change(json!({
            "starts_at": "2026-11-21T12:00:00Z",
            "ends_at": "2026-11-21T12:10:00Z",
            "per_user_limit": 2,
        }))
        .await;
        let body = changed.json();
        assert_eq!((changed.status, &body["per_user_limit"]), (200, &json!(2)));
        assert_eq!(body["state"]["ends_at"], json!("2026-11-21T12:10:00.000Z"));
    }
    let paid = order("ann", "k", 1).await;
    assert_eq!(paid.status, 201, "{paid:?}");
    let price = |amount: i64, currency: &str| {
        change(json!({ "unit_price": { "amount": amount, "currency": currency } }))
    };
    assert_eq!(price(700, "CNY").await.status, 200);
    let dearer = order("ann", "l", 1).await;
    let cost = |reply: &crate::node::http::common::Reply| reply.json()["amount"]["amount"].as_i64();
    assert_eq!((cost(&paid), cost(&dearer)), (Some(500), Some(700)));
    order("ann", "m", 1)
        .await
        .assert_problem(409, "limit-reached");
    // The sale shows the new values at once, also in cached reads.
    let seen = service.get(&path, &service.token("ann", "")).await.json();
    assert_eq!(seen["unit_price"]["amount"], json!(700));
    let state = format!("/v1/campaigns/{id}/state");
    let state = service.get(&state, &operator).await.json();
    assert_eq!(state["ends_at"], json!("2026-11-21T12:10:00.000Z"));

    service.clock.advance_ms(1_000);
    let admission = |percent: u32| change(json!({ "admission_percent": percent }));
    assert_eq!(admission(300).await.json()["admission_percent"], json!(300));
    let seen = service.get(&path, &service.token("ann", "")).await.json();
    assert_eq!(seen["admission_percent"], json!(300));
    // The ledger follows the engine.
    let mut seen = seen;
    for _ in 0..100 {
        if seen["updated_at"] == json!("2026-11-21T12:00:01.000Z") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen = service.get(&path, &service.token("ann", "")).await.json();
    }
    assert_eq!(seen["updated_at"], json!("2026-11-21T12:00:01.000Z"));
    let listed = service.get("/v1/sales?all=true", &operator).await.json();
    assert_eq!(listed["data"][0]["updated_at"], seen["updated_at"]);
    let refused = admission(99).await;
    refused.assert_problem(422, "invalid");
    let pointer = &refused.json()["errors"][0]["pointer"];
    assert_eq!(pointer, "#/admission_percent");
    let actions = format!("/v1/operation-log?subject={id}");
    let actions = service.get(&actions, &service.operator()).await.json();
    let recorded = actions["data"].as_array().unwrap().iter();
    let is_change = |it: &&Value| it["detail"] == json!({ "admission_percent": 300 });
    assert_eq!(recorded.filter(is_change).count(), 1, "{actions}");
    // Each change has the values before it.
    let recorded = actions["data"].as_array().unwrap().iter();
    let mut before: Vec<_> = recorded
        .filter(|action| action["action"] == json!("change"))
        .map(|action| action["before"].clone())
        .collect();
    // Actions of one millisecond are in any order.
    before.sort_by_key(Value::to_string);
    let expected = [
        json!({ "admission_percent": 150 }),
        json!({ "ends_at": "2026-11-21T18:00:00.000Z", "per_user_limit": 1, "starts_at": "2026-11-21T13:00:00.000Z" }),
        json!({ "unit_price": { "amount": 500, "currency": "CNY" } }),
    ];
    assert_eq!(before, expected, "{actions}");

    price(700, "EUR").await.assert_problem(422, "invalid");
    price(-1, "CNY").await.assert_problem(422, "invalid");
    change(json!({})).await.assert_problem(422, "invalid");
    // Stock and terms change in one step, or not at all.
    let too_many = json!({ "stock": 9, "per_user_limit": 10 });
    change(too_many).await.assert_problem(422, "invalid");
    let too_few = json!({ "stock": 1, "per_user_limit": 1 });
    change(too_few).await.assert_problem(409, "stock-granted");
    for _ in 0..2 {
        let both = change(json!({ "stock": 9, "per_user_limit": 8 }))
            .await
            .json();
        assert_eq!(
            (&both["stock"], &both["per_user_limit"]),
            (&json!(9), &json!(8))
        );
    }
    let both = change(json!({ "stock": 5, "per_user_limit": 1 }))
        .await
        .json();
    assert_eq!(
        (&both["stock"], &both["per_user_limit"]),
        (&json!(5), &json!(1))
    );
    let past = json!({ "ends_at": "2026-11-21T11:00:00Z" });
    change(past).await.assert_problem(422, "invalid");
    let opened = json!({ "starts_at": "2026-11-21T12:05:00Z" });
    change(opened).await.assert_problem(409, "phase-conflict");
    let stranger = service.token("ann", "claim");
    let refused = json!({ "per_user_limit": 1 });
    let refused = service.patch(&path, &stranger, refused).await;
    refused.assert_problem(403, "forbidden");

    let service = service.restart().await;
    let seen = service.get(&path, &service.token("ann", "")).await.json();
    assert_eq!(seen["admission_percent"], json!(300));
    service.clock.advance_ms(599_000 - 1);
    let (path, token) = (format!("{path}/orders"), service.token("bob", "claim"));
    let body = || json!({ "quantity": 1 });
    assert_eq!(service.post(&path, &token, body()).await.status, 201);
    service.clock.advance_ms(1);
    let token = service.token("cid", "claim");
    let late = service.post(&path, &token, body()).await;
    late.assert_problem(410, "ended");
    service.stop().await;
}

/// Two users edit one sale at once. Changes of different fields are all kept. A field that both change has one of the
/// two values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_who_edit_at_once_lose_no_field() {
    let service = Service::start().await;
    let id = service.sale(50, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    let (ann, ben) = (service.operator(), service.token("otto", "admin"));
    for round in 1..=5_i64 {
        let price = json!({ "unit_price": { "amount": 100 * round, "currency": "CNY" } });
        let [limit, stock] = [
            json!({ "per_user_limit": round }),
            json!({ "stock": 50 + round }),
        ];
        let title = json!({ "title": format!("round {round}") });
        let changed = tokio::join!(
            service.patch(&path, &ann, price),
            service.patch(&path, &ben, limit),
            service.patch(&path, &ann, stock),
            service.patch(&path, &ben, title),
        );
        for reply in [changed.0, changed.1, changed.2, changed.3] {
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        let seen = service.get(&path, &ann).await.json();
        assert_eq!(seen["unit_price"]["amount"], json!(100 * round));
        assert_eq!(seen["per_user_limit"], json!(round));
        assert_eq!(seen["stock"], json!(50 + round));
        assert_eq!(seen["title"], json!(format!("round {round}")));
    }
    let both = tokio::join!(
        service.patch(&path, &ann, json!({ "stock": 60 })),
        service.patch(&path, &ben, json!({ "stock": 70 })),
    );
    assert_eq!((both.0.status, both.1.status), (200, 200));
    let stock = service.get(&path, &ann).await.json()["stock"].clone();
    assert!(stock == json!(60) || stock == json!(70), "{stock}");
    service.stop().await;
}
