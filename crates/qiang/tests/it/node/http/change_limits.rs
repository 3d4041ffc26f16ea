//! Limits of rows that users can cause: changes of one campaign or webhook, and keys of changes that are made already.

use serde_json::{Value, json};

use crate::node::http::{
    common::{Reply, Service, call, paid},
    receiver::Receiver,
    webhooks,
};

impl Service {
    async fn keyed_act(&self, path: &str, token: &str, key: &str) -> Reply {
        let headers = [("Idempotency-Key", key)];
        call(self.addr, "POST", path, Some(token), &headers, None).await
    }

    fn count(&self, of: &str) -> i64 {
        let file = rusqlite::Connection::open(self.folder.path().join("qiang.db")).unwrap();
        let sql = format!("SELECT count(*) FROM {of}");
        file.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

#[tokio::test]
async fn one_campaign_takes_so_many_changes_a_minute() {
    const CHANGES: u32 = 1;
    let service = Service::start_with(|config, _| {
        config.limits.changes_per_campaign_per_minute = CHANGES;
    })
    .await;
    let packet = service.red_packet(5, |_| ()).await;
    let sam = service.token("sam", "send");
    let path = |verb: &str| format!("/v1/campaigns/{packet}/{verb}");
    for round in 0..CHANGES {
        for verb in ["pause", "resume"] {
            let key = format!("{verb}-{round}");
            let made = service.keyed_act(&path(verb), &sam, &key).await;
            assert_eq!(made.status, 200, "{key}: {made:?}");
        }
    }
    // The first pause is always accepted. Another one under a new key would write a useless row.
    assert_eq!(service.act(&path("pause"), &sam).await.status, 200);
    let rows = (service.count("actions"), service.count("idempotency_keys"));
    for n in 0..5 {
        for verb in ["pause", "resume"] {
            let key = format!("{verb}-more-{n}");
            let refused = service.keyed_act(&path(verb), &sam, &key).await;
            refused.assert_problem(429, "throttled");
            assert!(!refused.header("retry-after").is_empty());
        }
        service
            .act(&path("resume"), &sam)
            .await
            .assert_problem(429, "throttled");
        // A repeated pause without a key writes nothing, so it is answered.
        assert_eq!(service.act(&path("pause"), &sam).await.status, 200);
    }
    let after = (service.count("actions"), service.count("idempotency_keys"));
    assert_eq!(after, rows);
    // A retry gets its answer, and another campaign has its own allowance.
    let again = service.keyed_act(&path("resume"), &sam, "resume-0").await;
    assert_eq!(again.status, 200, "{again:?}");
    let sale = service.sale(5, |_| ()).await;
    let stock = |stock: u64| json!({ "stock": stock });
    let sale = format!("/v1/sales/{sale}");
    for n in 0..u64::from(CHANGES) {
        let made = service
            .patch(&sale, &service.operator(), stock(6 + n))
            .await;
        assert_eq!(made.status, 200, "{made:?}");
    }
    let refused = service.patch(&sale, &service.operator(), stock(20)).await;
    refused.assert_problem(429, "throttled");
    // Metadata of a campaign counts as its changes, and that of an order as the order's.
    let bought = service.sale(5, |_| ()).await;
    let bought = service
        .act(
            &format!("/v1/sales/{bought}/orders"),
            &service.token("ann", "claim"),
        )
        .await;
    let order = format!("/v1/orders/{}/metadata", bought.text("id"));
    let packet = service.red_packet(5, |_| ()).await;
    let packet = format!("/v1/campaigns/{packet}/metadata");
    for (path, token) in [(order, service.operator()), (packet, sam)] {
        let change = async |n: u32| {
            let body = json!({ "reference": n.to_string() });
            service.patch(&path, &token, body).await
        };
        for n in 0..CHANGES {
            let made = change(n).await;
            assert_eq!(made.status, 200, "{path}: {made:?}");
        }
        let rows = service.count("actions");
        change(CHANGES).await.assert_problem(429, "throttled");
        assert_eq!(service.count("actions"), rows);
    }
    service.stop().await;
}

#[tokio::test]
async fn what_is_refused_for_good_binds_no_key() {
    const CHANGES: u32 = 1;
    let service = Service::start_with(|config, _| {
        config.limits.changes_per_campaign_per_minute = CHANGES;
    })
    .await;
    let operator = service.operator();
    let sale = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{sale}/orders");
    let mut order = Vec::new();
    for user in ["ann", "bob", "cid"] {
        let made = service.act(&orders, &service.token(user, "claim")).await;
        assert_eq!(made.status, 201, "{made:?}");
        order.push(format!("/v1/orders/{}", made.text("id")));
    }
    let [paid_order, cancelled, held] = &order[..] else {
        unreachable!("there are three");
    };
    let payment = format!("{paid_order}/payment");
    let made = service.post(&payment, &operator, paid("p", 500)).await;
    assert_eq!(made.status, 200, "{made:?}");
    let path = format!("{cancelled}/cancellation");
    let made = service.act(&path, &service.token("bob", "claim")).await;
    assert_eq!(made.status, 200, "{made:?}");
    let rows = || (service.count("actions"), service.count("idempotency_keys"));
    let before = rows();
    // A buyer may return paid orders alone.
    for (path, token) in [
        (
            format!("{paid_order}/cancellation"),
            service.token("ann", "claim"),
        ),
        (format!("{paid_order}/cancellation"), operator.clone()),
        (format!("{cancelled}/return"), operator.clone()),
    ] {
        for n in 0..5 {
            let key = format!("refused-{n}");
            let refused = service.keyed_act(&path, &token, &key).await;
            refused.assert_problem(409, "order-conflict");
        }
        assert_eq!(rows(), before, "{path}");
    }
    // A payment may change the state of a held order, so each refusal is kept under its key, and their number is
    // limited.
    let (path, token) = (format!("{held}/return"), operator.clone());
    for n in 0..CHANGES {
        let refused = service.keyed_act(&path, &token, &format!("held-{n}")).await;
        refused.assert_problem(409, "order-conflict");
    }
    for n in 0..5 {
        let refused = service.keyed_act(&path, &token, &format!("more-{n}")).await;
        refused.assert_problem(429, "throttled");
    }
    assert_eq!(rows(), (before.0, before.1 + i64::from(CHANGES)));
    let again = service.keyed_act(&path, &token, "held-0").await;
    again.assert_problem(409, "order-conflict");
    assert_eq!(again.header("idempotency-replayed"), "true");
    service.stop().await;
}

#[tokio::test]
async fn what_is_done_for_good_binds_no_further_key() {
    let service = Service::start().await;
    let (ann, bob) = (service.token("ann", "claim"), service.token("bob", "claim"));
    let operator = service.operator();
    let sale = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{sale}/orders");
    let mut order = Vec::new();
    for token in [&ann, &bob] {
        let made = service.act(&orders, token).await;
        assert_eq!(made.status, 201, "{made:?}");
        order.push(format!("/v1/orders/{}", made.text("id")));
    }
    let payment = format!("{}/payment", order[1]);
    let made = service.post(&payment, &operator, paid("p", 500)).await;
    assert_eq!(made.status, 200, "{made:?}");
    let cases: [(String, &String); 4] = [
        (format!("{}/cancellation", order[0]), &ann),
        (format!("{}/return", order[1]), &operator),
        (format!("/v1/campaigns/{sale}/close"), &operator),
        (format!("/v1/campaigns/{sale}/archive"), &operator),
    ];
    for (path, token) in &cases {
        let first = service.keyed_act(path, token, "first").await;
        assert_eq!(first.status, 200, "{path}: {first:?}");
        let rows = (service.count("actions"), service.count("idempotency_keys"));
        for n in 0..5 {
            let again = service.keyed_act(path, token, &format!("again-{n}")).await;
            assert_eq!(again.status, 200, "{path}: {again:?}");
            let state = |reply: &Reply| -> Value {
                let body = reply.json();
                [&body["state"], &body["phase"]]
                    .map(Clone::clone)
                    .to_vec()
                    .into()
            };
            assert_eq!(state(&again), state(&first), "{path}");
        }
        let after = (service.count("actions"), service.count("idempotency_keys"));
        assert_eq!(after, rows, "{path}");
        let retried = service.keyed_act(path, token, "first").await;
        assert_eq!(retried.json(), first.json(), "{path}");
        assert_eq!(retried.header("idempotency-replayed"), "true");
    }
    service.stop().await;
}

/// Each webhook has a limit of its own for all its changes, and each seller one for new webhooks.
#[tokio::test]
async fn one_webhook_takes_so_many_changes_a_minute() {
    let service = Service::start_with(|config, backend| {
        webhooks::adjust(config, backend);
        config.limits.changes_per_campaign_per_minute = 1;
    })
    .await;
    let receiver = Receiver::start().await;
    let since = json!({ "given_up_since": "2026-01-01T00:00:00Z" });
    let changes = [
        ("PATCH", "", Some(json!({ "enabled": true }))),
        ("POST", "/secret", None),
        ("POST", "/test", None),
        ("POST", "/redrive", None),
        ("POST", "/redeliver", Some(since)),
    ];
    let ask = async |token: &str, key: Option<&str>, what: (&str, &str), body: Option<Value>| {
        let headers: Vec<_> = key
            .map(|key| ("Idempotency-Key", key))
            .into_iter()
            .collect();
        call(service.addr, what.0, what.1, Some(token), &headers, body).await
    };
    let rows = || (service.count("actions"), service.count("idempotency_keys"));
    for (n, (method, end, body)) in changes.into_iter().enumerate() {
        let token = service.token(&format!("seller-{n}"), "campaigns:write");
        let endpoint = Some(json!({ "url": receiver.url() }));
        let create = ("POST", "/v1/webhooks");
        let made = ask(&token, Some("new"), create, endpoint.clone()).await;
        assert_eq!(made.status, 201, "{made:?}");
        let path = format!("/v1/webhooks/{}{end}", made.text("id"));
        let change = (method, &*path);
        let first = ask(&token, Some("first"), change, body.clone()).await;
        assert_eq!(first.status, 200, "{change:?}: {first:?}");
        let before = rows();
        for key in [Some("more"), Some("again"), None] {
            let refused = ask(&token, key, change, body.clone()).await;
            refused.assert_problem(429, "throttled");
            let another = ask(&token, key, create, endpoint.clone()).await;
            another.assert_problem(429, "throttled");
        }
        let retried = ask(&token, Some("first"), change, body).await;
        assert_eq!(retried.status, 200, "{change:?}: {retried:?}");
        let retried = ask(&token, Some("new"), create, endpoint).await;
        assert_eq!(retried.status, 200, "{retried:?}");
        assert_eq!(rows(), before, "{change:?}");
    }
    service.stop().await;
}
