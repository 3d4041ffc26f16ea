//! Every change of money or of a campaign names its actor in the ledger.

use crate::node::http::common::{Reply, Service, call, packet, paid, sale};
use serde_json::{Value, json};

impl Service {
    async fn asked(
        &self,
        user: &str,
        scope: &str,
        what: &str,
        id: &str,
        body: Option<Value>,
    ) -> Reply {
        // The ids of the actions are in the order of time.
        self.clock.advance_ms(1);
        let (method, path) = what.split_once(' ').unwrap();
        let headers = [("X-Request-Id", id)];
        let token = self.token(user, scope);
        call(self.addr, method, path, Some(&token), &headers, body).await
    }

    /// Actions on a subject: actor, kind and request.
    async fn actions(&self, subject: &str) -> Vec<(String, String, String)> {
        let path = format!("/v1/operation-log?subject={subject}");
        let page = self.get(&path, &self.token("eve", "read:any")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        assert_eq!(page["next"], Value::Null);
        let text = |action: &Value, field: &str| action[field].as_str().unwrap().to_owned();
        let action = |it: &Value| {
            assert_eq!(text(it, "subject"), subject);
            (
                text(it, "actor"),
                text(it, "action"),
                text(it, "request_id"),
            )
        };
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(action)
            .collect()
    }
}

fn done(actions: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    let owned = |(actor, action, id): &(&str, &str, &str)| {
        (actor.to_string(), action.to_string(), id.to_string())
    };
    actions.iter().map(owned).collect()
}

#[tokio::test]
async fn campaigns_and_accounts_know_who_changed_them() {
    let service = Service::start().await;
    let money = crate::node::http::common::named_deposit("d-1", 10_000);
    let deposit = "POST /v1/accounts/sam/deposits";
    let made = service
        .asked("pay-1", "deposit", deposit, "r1", Some(money))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        service.actions("sam").await,
        done(&[("pay-1", "deposit", "r1")])
    );
    let page = service
        .get("/v1/operation-log?subject=sam", &service.operator())
        .await
        .json();
    let detail = &page["data"][0]["detail"];
    assert_eq!(
        *detail,
        json!({ "id": made.text("id"), "amount": 10_000, "currency": "CNY", "reference": "d-1" })
    );

    let sent = service
        .asked(
            "sam",
            "send",
            "POST /v1/red-packets",
            "r2",
            Some(packet(100, 2)),
        )
        .await;
    let id = sent.text("id");
    let lead = async |user: &str, scope: &str, verb: &str, request: &str, status: u16| {
        let what = format!("POST /v1/campaigns/{id}/{verb}");
        let reply = service.asked(user, scope, &what, request, None).await;
        assert_eq!(reply.status, status, "{verb} {reply:?}");
    };
    lead("sam", "send", "pause", "r3", 200).await;
    lead("olga", "campaigns:write:any", "resume", "r4", 200).await;
    // Forbidden and refused requests are no actions.
    lead("ann", "send", "close", "r5", 403).await;
    lead("sam", "send", "archive", "r6", 409).await;
    lead("olga", "admin", "close", "r7", 200).await;
    lead("olga", "campaigns:write:any", "resume", "r8", 409).await;
    lead("sam", "send", "archive", "r9", 200).await;
    let expected = done(&[
        ("sam", "create", "r2"),
        ("sam", "pause", "r3"),
        ("olga", "resume", "r4"),
        ("olga", "close", "r7"),
        ("sam", "archive", "r9"),
    ]);
    assert_eq!(service.actions(&id).await, expected);
    service.stop().await;
}

#[tokio::test]
async fn sales_and_orders_know_who_changed_them() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let opened = service
        .asked(
            "tom",
            "campaigns:write",
            "POST /v1/sales",
            "r1",
            Some(sale(9)),
        )
        .await;
    let id = opened.text("id");
    let change = async |request: &str, body: Value| {
        let what = format!("PATCH /v1/sales/{id}");
        let reply = service
            .asked("tom", "campaigns:write", &what, request, Some(body))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    change("r2", json!({ "stock": 12, "title": "secret" })).await;
    change("r3", json!({ "description": "words" })).await;
    let expected = [
        ("tom", "create", "r1"),
        ("tom", "change", "r2"),
        ("tom", "change", "r3"),
    ];
    assert_eq!(service.actions(&id).await, done(&expected));
    let page = format!("/v1/operation-log?subject={id}");
    let page = service.get(&page, &service.operator()).await.json();
    let details: Vec<_> = (1..3).map(|n| page["data"][n]["detail"].clone()).collect();
    assert_eq!(
        details,
        [
            json!({ "stock": 12, "title": null }),
            json!({ "description": null })
        ]
    );

    let order = async |buyer: &str| {
        let path = format!("/v1/sales/{id}/orders");
        service
            .act(&path, &service.token(buyer, "claim"))
            .await
            .text("id")
    };
    let step = async |user: &str, scope: &str, order: &str, step: &str, request: &str| {
        let what = format!("POST /v1/orders/{order}/{step}");
        let body = (step == "payment").then(|| paid(order, 500));
        let reply = service.asked(user, scope, &what, request, body).await;
        assert_eq!(reply.status, 200, "{step} {reply:?}");
    };
    let [one, two] = [order("ann").await, order("bob").await];
    step("pay-1", "pay", &one, "payment", "r4").await;
    step("tom", "campaigns:write", &one, "return", "r5").await;
    let expected = [("pay-1", "pay", "r4"), ("tom", "return", "r5")];
    assert_eq!(service.actions(&one).await, done(&expected));
    step("olga", "admin", &two, "cancellation", "r6").await;
    assert_eq!(
        service.actions(&two).await,
        done(&[("olga", "cancel", "r6")])
    );
    // A buyer's own steps are not recorded again: the order names the buyer.
    let own = order("ann").await;
    step("ann", "", &own, "cancellation", "r7").await;
    assert_eq!(service.actions(&own).await, []);
    service.stop().await;
}

#[tokio::test]
async fn a_repetition_is_no_second_deposit_and_pages_follow_each_other() {
    let service = Service::start().await;
    let money =
        |amount: i64| crate::node::http::common::named_deposit(&format!("d-{amount}"), amount);
    let token = service.token("pay-1", "deposit");
    let path = "/v1/accounts/sam/deposits";
    for (amount, status) in [(1, 201), (1, 200), (2, 201), (3, 201)] {
        let key = format!("k{amount}");
        let reply = service.post_key(path, &token, &key, money(amount)).await;
        assert_eq!(reply.status, status, "{reply:?}");
        service.clock.advance_ms(1);
    }
    let token = service.token("eve", "read:any");
    let mut next = "/v1/operation-log?subject=sam&limit=2".to_owned();
    let mut amounts = Vec::new();
    for last in [false, true] {
        let page = service.get(&next, &token).await;
        for action in page.json()["data"].as_array().unwrap() {
            amounts.push(action["detail"]["amount"].as_i64().unwrap());
        }
        assert_eq!(page.json()["next"].is_null(), last);
        let link = page.header("link").to_owned();
        next = link
            .trim_start_matches('<')
            .split('>')
            .next()
            .unwrap()
            .to_owned();
    }
    assert_eq!(amounts, [1, 2, 3]);
    service
        .get("/v1/operation-log?subject=sam&limit=0", &token)
        .await
        .assert_problem(400, "bad-request");
    service.stop().await;
}

/// Changes of webhooks are recorded too, with the host of the URL alone and without secrets.
#[tokio::test]
async fn webhooks_know_who_changed_them() {
    let service = Service::start().await;
    let body = json!({"url": "https://localhost:9/a-secret-path", "types": ["order.paid"], "owner": "sam"});
    let made = service
        .asked("olga", "admin", "POST /v1/webhooks", "r1", Some(body))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.text("id");
    let ask = async |what: &str, request: &str, status: u16| {
        let what = what.replace("ID", &id);
        let reply = service.asked("oscar", "admin", &what, request, None).await;
        assert_eq!(reply.status, status, "{what}: {reply:?}");
    };
    ask("POST /v1/webhooks/ID/secret", "r2", 200).await;
    ask("POST /v1/webhooks/ID/test", "r3", 200).await;
    ask("POST /v1/webhooks/ID/redrive", "r4", 200).await;
    ask("DELETE /v1/webhooks/ID", "r5", 204).await;
    ask("DELETE /v1/webhooks/ID", "r6", 404).await;
    let expected = done(&[
        ("olga", "create", "r1"),
        ("oscar", "change", "r2"),
        ("oscar", "redrive", "r4"),
        ("oscar", "delete", "r5"),
    ]);
    assert_eq!(service.actions(&id).await, expected);
    let path = format!("/v1/operation-log?subject={id}");
    let page = service.get(&path, &service.operator()).await.json();
    let detail =
        json!({"host": "localhost", "types": ["order.paid"], "campaigns": [], "owner": "sam"});
    assert_eq!(page["data"][0]["detail"], detail);
    for hidden in ["whsec_", "a-secret-path"] {
        assert!(!page.to_string().contains(hidden), "{page}");
    }
    service.stop().await;
}

#[tokio::test]
async fn what_an_engine_refuses_is_no_action() {
    let service = Service::start().await;
    let opened = service
        .asked(
            "tom",
            "campaigns:write",
            "POST /v1/sales",
            "r1",
            Some(sale(9)),
        )
        .await;
    let id = opened.text("id");
    let buy = format!("POST /v1/sales/{id}/orders");
    let mut orders = Vec::new();
    for user in ["ann", "bob", "cid", "dan", "eve"] {
        let bought = service.asked(user, "claim", &buy, "r2", None).await;
        assert_eq!(bought.status, 201, "{bought:?}");
        orders.push(bought.text("id"));
    }
    let change = format!("PATCH /v1/sales/{id}");
    let less = Some(json!({ "stock": 3 }));
    let refused = service.asked("olga", "admin", &change, "no", less).await;
    refused.assert_problem(409, "stock-granted");
    assert!(refused.text("detail").contains("5 units"), "{refused:?}");
    let expected = done(&[("tom", "create", "r1")]);
    assert_eq!(service.actions(&id).await, expected);
    let close = format!("POST /v1/campaigns/{id}/close");
    let closed = service
        .asked("tom", "campaigns:write", &close, "r3", None)
        .await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let price = json!({ "unit_price": { "amount": 1, "currency": "CNY" } });
    let refusals = [
        (change.clone(), Some(json!({ "stock": 1 }))),
        (change, Some(price)),
        (format!("POST /v1/campaigns/{id}/pause"), None),
        (format!("POST /v1/campaigns/{id}/resume"), None),
        (format!("POST /v1/orders/{}/return", orders[0]), None),
    ];
    for (what, body) in refusals {
        let refused = service.asked("olga", "admin", &what, "no", body).await;
        assert_eq!(refused.status, 409, "{what}: {refused:?}");
    }
    assert_eq!(
        service.actions(&id).await,
        done(&[("tom", "create", "r1"), ("tom", "close", "r3")])
    );
    assert_eq!(service.actions(&orders[0]).await, done(&[]));
    service.stop().await;
}
