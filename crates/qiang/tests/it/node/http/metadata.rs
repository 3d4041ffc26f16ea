//! Metadata over HTTP: a shop stores its own number and texts with campaigns, orders and deposits. Users do not see
//! them.

use serde_json::{Value, json};

use crate::node::http::common::{Reply, Service, call, packet, sale};

async fn patch_with(service: &Service, path: &str, token: &str, key: &str, body: Value) -> Reply {
    let headers = [("idempotency-key", key)];
    call(
        service.addr,
        "PATCH",
        path,
        Some(token),
        &headers,
        Some(body),
    )
    .await
}

fn found(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    let all = body["data"].as_array().unwrap().iter();
    all.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_shop_sees_the_metadata_of_its_campaigns_and_users_do_not() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write send");
    let other = service.token("other", "campaigns:write send");
    let (ann, all) = (service.token("ann", ""), service.token("desk", "read:any"));
    service.deposit("shop", 1_000).await;
    let mut new_sale = sale(5);
    new_sale["reference"] = json!("PO-1");
    new_sale["metadata"] = json!({ "channel": "app", "note": "上海 \"1\"" });
    let mut new_packet = packet(1_000, 5);
    new_packet["reference"] = json!("PO-1");
    for (list, new, object) in [
        ("/v1/sales", new_sale, "sale"),
        ("/v1/red-packets", new_packet, "red_packet"),
    ] {
        let made = service.post_key(list, &shop, "new", new.clone()).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.json()["reference"], "PO-1");
        let id = made.text("id");
        let one = format!("{list}/{id}");
        let metadata = format!("/v1/campaigns/{id}/metadata");
        for token in [&shop, &all] {
            let seen = service.get(&one, token).await.json();
            assert_eq!(seen["reference"], "PO-1", "{seen}");
            assert_eq!(seen["metadata"], new["metadata"]);
            let alone = service.get(&metadata, token).await.json();
            assert_eq!(alone["object"], object, "{alone}");
            assert_eq!(alone["reference"], "PO-1", "{alone}");
        }
        for token in [&ann, &other] {
            let seen = service.get(&one, token).await.json();
            assert_eq!(seen.get("reference"), None, "{seen}");
            assert_eq!(seen.get("metadata"), None, "{seen}");
            let refused = service.get(&metadata, token).await;
            refused.assert_problem(403, "forbidden");
            let change = json!({ "reference": "mine" });
            let refused = service.patch(&metadata, token, change).await;
            refused.assert_problem(403, "forbidden");
        }
        let listed = service.get(&format!("{list}?reference=PO-1"), &shop).await;
        assert_eq!(found(&listed), std::slice::from_ref(&id));
        assert_eq!(listed.json()["data"][0]["reference"], "PO-1");
        let whole = service.get(list, &shop).await.json();
        assert_eq!(whole["data"][0]["reference"], "PO-1", "{whole}");
        let every = format!("{list}?reference=PO-1&all=true");
        assert_eq!(
            found(&service.get(&every, &all).await),
            std::slice::from_ref(&id)
        );
        for (token, query) in [
            (&other, "reference=PO-1"),
            (&shop, "reference=PO-2"),
            (&shop, "reference=PO-1&phase=closed"),
        ] {
            let none = service.get(&format!("{list}?{query}"), token).await;
            assert_eq!(found(&none), [""; 0], "{query}");
        }

        // A change merges names; the retry of a creation does not undo it.
        let change = json!({ "reference": null, "metadata": { "channel": null, "batch": "7" } });
        let changed = service.patch(&metadata, &shop, change).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let again = service.post_key(list, &shop, "new", new.clone()).await;
        assert_eq!(again.status, 200, "{again:?}");
        for seen in [changed, again, service.get(&one, &shop).await] {
            let seen = seen.json();
            assert_eq!(seen.get("reference"), None, "{seen}");
            assert_eq!(seen["metadata"]["batch"], "7", "{seen}");
            assert_eq!(seen["metadata"].get("channel"), None, "{seen}");
            assert_eq!(seen["metadata"]["note"], new["metadata"]["note"]);
        }
    }
    let unknown = "/v1/campaigns/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80/metadata";
    for token in [&shop, &all, &service.operator()] {
        let missing = service.get(unknown, token).await;
        missing.assert_problem(404, "unknown-campaign");
    }
    let change = json!({ "reference": "x" });
    let missing = service.patch(unknown, &service.operator(), change).await;
    missing.assert_problem(404, "unknown-campaign");
    service.stop().await;
}

#[tokio::test]
async fn the_metadata_of_an_order_is_its_sellers() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write");
    let (ann, all) = (
        service.token("ann", "claim"),
        service.token("desk", "read:any"),
    );
    let opened = service.post("/v1/sales", &shop, sale(5)).await;
    let id = opened.text("id");
    let orders = format!("/v1/sales/{id}/orders");
    let bought = service.post(&orders, &ann, json!({ "quantity": 1 })).await;
    assert_eq!(bought.status, 201, "{bought:?}");
    let order = bought.text("id");
    let metadata = format!("/v1/orders/{order}/metadata");
    let change = json!({ "reference": "SO-9", "metadata": { "warehouse": "3" } });
    let changed = service.patch(&metadata, &shop, change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let expected = json!({ "id": order, "object": "order", "reference": "SO-9",
        "metadata": { "warehouse": "3" } });
    assert_eq!(changed.json(), expected);
    assert_eq!(service.get(&metadata, &shop).await.json(), expected);
    assert_eq!(service.get(&metadata, &all).await.json(), expected);
    service
        .get(&metadata, &ann)
        .await
        .assert_problem(403, "forbidden");
    let missing = format!("/v1/orders/{id}-99/metadata");
    let missing = service
        .patch(&missing, &shop, json!({ "reference": "x" }))
        .await;
    missing.assert_problem(404, "not-found");
    let page = "/v1/orders?reference=SO-9";
    for token in [&shop, &all] {
        let listed = service.get(page, token).await;
        assert_eq!(found(&listed), std::slice::from_ref(&order));
        assert_eq!(listed.json()["data"][0]["metadata"]["warehouse"], "3");
        let of_sale = service
            .get(&format!("/v1/orders?campaign={id}"), token)
            .await;
        assert_eq!(of_sale.json()["data"][0]["reference"], "SO-9");
    }
    // A page of a caller without such orders names none, not in its cursor either.
    let bob = service.token("bob", "claim");
    let second = service.post(&orders, &bob, json!({ "quantity": 1 }));
    let second = second.await.text("id");
    let change = json!({ "reference": "SO-9" });
    let path = format!("/v1/orders/{second}/metadata");
    assert_eq!(service.patch(&path, &shop, change).await.status, 200);
    let short = format!("{page}&limit=1");
    for token in [&ann, &service.token("other", "campaigns:write")] {
        let none = service.get(&short, token).await;
        assert_eq!(found(&none), [""; 0]);
        assert_eq!(none.json().get("next"), None, "{none:?}");
    }
    let first = service.get(&short, &shop).await.json();
    let next = first["next"].as_str().unwrap();
    let rest = service.get(&format!("{short}&after={next}"), &shop).await;
    assert_eq!(found(&rest).len(), 1);
    let own = service.get("/v1/orders", &ann).await.json();
    assert_eq!(own["data"][0].get("reference"), None, "{own}");
    let refused = service.get(&format!("{page}&state=held"), &shop).await;
    refused.assert_problem(422, "invalid");
    service.stop().await;
}

/// A late retry under the key of an earlier change does not act again.
#[tokio::test]
async fn a_late_retry_does_not_repeat_an_old_change_of_metadata() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service.sale(5, |_| {}).await;
    let path = format!("/v1/campaigns/{id}/metadata");
    let change = |value: &str| json!({ "metadata": { "a": value } });
    let first = patch_with(&service, &path, &operator, "first", change("1")).await;
    assert_eq!(first.status, 200, "{first:?}");
    let second = patch_with(&service, &path, &operator, "second", change("2")).await;
    assert_eq!(second.status, 200, "{second:?}");
    let again = patch_with(&service, &path, &operator, "first", change("1")).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    let now = service.get(&path, &operator).await.json();
    assert_eq!(now["metadata"]["a"], "2");
    let reused = patch_with(&service, &path, &operator, "first", change("3")).await;
    reused.assert_problem(422, "key-reused");
    let actions = service
        .get(&format!("/v1/operation-log?subject={id}"), &operator)
        .await;
    let actions = actions.json()["data"].as_array().unwrap().clone();
    let changes = actions.iter().filter(|it| it["action"] == "change");
    assert_eq!(changes.count(), 2, "{actions:?}");
    service.stop().await;
}

#[tokio::test]
async fn metadata_has_few_names_and_short_values() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service.sale(5, |_| {}).await;
    let path = format!("/v1/campaigns/{id}/metadata");
    let names = |from: u32, to: u32| -> Value {
        let names = (from..=to).map(|n| (format!("n{n}"), json!("x")));
        json!({ "metadata": names.collect::<serde_json::Map<_, _>>() })
    };
    let full = service.patch(&path, &operator, names(1, 20)).await;
    assert_eq!(full.status, 200, "{full:?}");
    for bad in [
        json!({}),
        json!({ "metadata": {} }),
        names(21, 21),
        names(1, 21),
        json!({ "metadata": { "a b": "x" } }),
        json!({ "metadata": { "a": "" } }),
        json!({ "metadata": { "n1": "字".repeat(501) } }),
        json!({ "metadata": { "n1": "a\nb" } }),
        json!({ "metadata": { "n1": 1 } }),
        json!({ "reference": "" }),
        json!({ "reference": "a b" }),
        json!({ "reference": "r".repeat(129) }),
        json!({ "title": "x" }),
    ] {
        let refused = service.patch(&path, &operator, bad.clone()).await;
        assert!([400, 422].contains(&refused.status), "{bad}: {refused:?}");
    }
    assert_eq!(service.get(&path, &operator).await.json(), full.json());
    let longest = json!({ "metadata": { "n1": "字".repeat(500) } });
    assert_eq!(service.patch(&path, &operator, longest).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn a_deposits_metadata_is_for_the_service_that_made_it() {
    let service = Service::start().await;
    let (teller, ann) = (service.token("teller", "deposit"), service.token("ann", ""));
    let body = json!({ "amount": 500, "currency": "CNY", "reference": "D-1",
        "metadata": { "till": "4" } });
    let made = service
        .post("/v1/accounts/ann/deposits", &teller, body.clone())
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["metadata"]["till"], "4");
    let again = service
        .post("/v1/accounts/ann/deposits", &teller, body)
        .await;
    assert_eq!((again.status, again.json()), (200, made.json()));
    let one = made.header("location").to_owned();
    for path in [one.as_str(), "/v1/deposits"] {
        for (token, is_shown) in [(&teller, true), (&ann, false)] {
            let seen = service.get(path, token).await.json();
            let deposit = seen.get("data").map_or(&seen, |all| &all[0]);
            assert_eq!(deposit["id"], made.json()["id"], "{seen}");
            assert_eq!(deposit.get("metadata").is_some(), is_shown, "{seen}");
        }
    }
    service.stop().await;
}

/// The second sale, packet or order with one unique reference is refused, and the problem names the first.
#[tokio::test]
async fn a_unique_reference_is_refused_by_the_name_of_its_object() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write send");
    service.deposit("shop", 1_000).await;
    let unique = |mut body: Value, reference: &str| {
        body["reference"] = json!(reference);
        body["unique_reference"] = json!(true);
        body
    };
    let new = unique(sale(5), "PO-1");
    let made = service.post_key("/v1/sales", &shop, "k", new.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let first = made.text("id");
    for (path, body) in [
        ("/v1/sales", new.clone()),
        ("/v1/red-packets", unique(packet(1_000, 5), "PO-1")),
    ] {
        let refused = service.post_key(path, &shop, "another", body).await;
        refused.assert_problem(409, "reference-taken");
        assert_eq!(refused.json()["existing_id"], json!(first));
    }
    assert_eq!(service.balance("shop").await, 1_000);
    // A retry under its key finds the sale, and the refused key is free.
    let again = service.post_key("/v1/sales", &shop, "k", new).await;
    assert_eq!((again.status, again.text("id")), (200, first.clone()));
    let other = unique(packet(1_000, 5), "PO-2");
    let made = service
        .post_key("/v1/red-packets", &shop, "another", other)
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let metadata = format!("/v1/campaigns/{first}/metadata");
    let seen = service.get(&metadata, &shop).await.json();
    assert_eq!(seen["unique_reference"], true, "{seen}");
    let change = json!({ "reference": "PO-2" });
    let refused = service.patch(&metadata, &shop, change).await;
    refused.assert_problem(409, "reference-taken");
    assert_eq!(refused.json()["existing_id"], json!(made.text("id")));

    let orders = format!("/v1/sales/{first}/orders");
    let mut ids = Vec::new();
    for buyer in ["ann", "bob"] {
        let token = service.token(buyer, "claim");
        let bought = service
            .post(&orders, &token, json!({ "quantity": 1 }))
            .await;
        assert_eq!(bought.status, 201, "{bought:?}");
        ids.push(bought.text("id"));
    }
    let change = json!({ "reference": "PO-1", "unique_reference": true });
    let of_order = |n: usize| format!("/v1/orders/{}/metadata", ids[n]);
    let changed = service.patch(&of_order(0), &shop, change.clone()).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    for key in ["a", "a", "b"] {
        let refused = patch_with(&service, &of_order(1), &shop, key, change.clone()).await;
        refused.assert_problem(409, "reference-taken");
        assert_eq!(refused.json()["existing_id"], json!(ids[0]));
    }
    let shared = json!({ "reference": "PO-1", "unique_reference": false });
    let freed = service.patch(&of_order(0), &shop, shared).await;
    assert_eq!(freed.json().get("unique_reference"), None, "{freed:?}");
    let changed = patch_with(&service, &of_order(1), &shop, "c", change).await;
    assert_eq!(changed.json()["unique_reference"], true, "{changed:?}");

    let mut alone = sale(5);
    alone["unique_reference"] = json!(true);
    let refused = service.post("/v1/sales", &shop, alone).await;
    refused.assert_problem(422, "invalid");
    assert_eq!(refused.json()["errors"][0]["pointer"], "#/unique_reference");
    for change in [
        json!({ "unique_reference": true }),
        json!({ "unique_reference": true, "reference": null }),
    ] {
        let refused = service.patch(&metadata, &shop, change).await;
        refused.assert_problem(422, "invalid");
    }
    service.stop().await;
}
