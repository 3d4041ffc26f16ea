//! Money that leaves the service: refunds, withdrawals, reversals of deposits.

use crate::node::http::common::{Service, call, cursor, paid};
use serde_json::json;

#[tokio::test]
async fn what_is_owed_for_an_order_is_paid_back() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let sale = service.sale(1, |_| ()).await;
    let order = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    let order = format!("/v1/orders/{}", order.text("id"));
    let refunds = format!("{order}/refunds");
    let refund = async |reference: &str, amount: i64| {
        service
            .post(&refunds, &operator, paid(reference, amount))
            .await
    };
    refund("r-1", 1)
        .await
        .assert_problem(409, "refund-exceeds-due");
    for reference in ["p", "q"] {
        let path = format!("{order}/payment");
        service.post(&path, &operator, paid(reference, 500)).await;
    }
    service.act(&format!("{order}/return"), &operator).await;
    // The refund follows at once, and waits until the return is settled.
    let made = refund("r-1", 700).await;
    assert_eq!(
        (made.status, made.header("location")),
        (201, refunds.as_str()),
        "{made:?}"
    );
    assert_eq!(made.json()["amount"]["amount"], json!(700));
    let again = refund("r-1", 700).await;
    assert_eq!((again.status, again.json()), (200, made.json()));
    refund("r-1", 300)
        .await
        .assert_problem(409, "reference-used");
    refund("r-2", 301)
        .await
        .assert_problem(409, "refund-exceeds-due");
    refund("r-2", 0).await.assert_problem(422, "invalid");
    let other = json!({ "reference": "r-2", "amount": { "amount": 1, "currency": "USD" } });
    let other = service.post(&refunds, &operator, other).await;
    other.assert_problem(409, "refund-exceeds-due");
    let by_buyer = service.post(&refunds, &ann, paid("r-2", 300)).await;
    by_buyer.assert_problem(403, "forbidden");

    let seen = service.get(&refunds, &ann).await.json();
    let sums = (
        &seen["due"]["amount"],
        &seen["refunded"]["amount"],
        &seen["settled"],
    );
    assert_eq!(sums, (&json!(1_000), &json!(700), &json!(true)));
    let eve = service.get(&refunds, &service.token("eve", "claim")).await;
    eve.assert_problem(404, "not-found");
    assert_eq!(refund("r-2", 300).await.status, 201);
    let account = service.get("/v1/accounts/ann", &ann).await.json();
    assert_eq!(account["balances"][0]["refunds_due"]["amount"], json!(0));

    let unknown = format!("/v1/orders/{sale}-99/refunds");
    let unknown = service.post(&unknown, &operator, paid("r-3", 1)).await;
    unknown.assert_problem(404, "not-found");
    service.stop().await;
}

/// A recorded refund that was not paid is reversed, once: it is due again, and is paid under another reference.
#[tokio::test]
async fn a_recorded_refund_is_reversed_once() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", "claim"));
    let sale = service.sale(2, |_| ()).await;
    let order = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    let order = format!("/v1/orders/{}", order.text("id"));
    for reference in ["p", "q"] {
        let path = format!("{order}/payment");
        service.post(&path, &operator, paid(reference, 500)).await;
    }
    let refunds = format!("{order}/refunds");
    let refund = async |reference: &str| {
        let refund = paid(reference, 500);
        service.post(&refunds, &operator, refund).await
    };
    assert_eq!(refund("r/1").await.status, 201);
    let reversal = format!("{refunds}/r%2F1/reversal");
    let by_buyer = service.act(&reversal, &ann).await;
    by_buyer.assert_problem(403, "forbidden");
    let unknown = format!("{refunds}/r-2/reversal");
    let unknown = service.act(&unknown, &operator).await;
    unknown.assert_problem(404, "not-found");
    let other = format!("/v1/orders/{sale}-99/refunds/r%2F1/reversal");
    let other = service.act(&other, &operator).await;
    other.assert_problem(404, "not-found");
    // Two callers at once, each with a key of its own, and retries of both.
    let made = async |key: &str| {
        let key = [("Idempotency-Key", key)];
        call(service.addr, "POST", &reversal, Some(&operator), &key, None).await
    };
    let (one, two) = tokio::join!(made("a"), made("b"));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 201], "{one:?} {two:?}");
    assert_eq!(one.json(), two.json());
    assert_eq!(one.json()["amount"]["amount"], json!(500));
    for key in ["a", "b", "c"] {
        assert_eq!(made(key).await.json(), one.json());
    }
    let due = async || {
        let seen = service.get(&refunds, &ann).await.json();
        (
            seen["due"]["amount"].clone(),
            seen["refunded"]["amount"].clone(),
        )
    };
    assert_eq!(due().await, (json!(500), json!(0)));
    let account = service.get("/v1/accounts/ann", &ann).await.json();
    assert_eq!(account["balances"][0]["refunds_due"]["amount"], json!(500));
    let owed = service
        .get("/v1/refunds-due?all=true", &operator)
        .await
        .json();
    assert_eq!(owed["data"][0]["outstanding"]["amount"], json!(500));
    // The reference stays that of the reversed refund.
    refund("r/1").await.assert_problem(409, "reference-used");
    let paid_at_last = refund("r-3").await;
    assert_eq!(paid_at_last.status, 201, "{paid_at_last:?}");
    assert_eq!(due().await, (json!(500), json!(500)));
    let listed = service.get("/v1/refunds", &ann).await.json();
    let listed = listed["data"].as_array().unwrap().iter();
    let listed: Vec<_> = listed
        .map(|refund| (refund["reference"].clone(), refund["reversed"].clone()))
        .collect();
    let expected = [(json!("r-3"), json!(false)), (json!("r/1"), json!(true))];
    for refund in expected {
        assert!(listed.contains(&refund), "{listed:?}");
    }
    let log = format!(
        "/v1/operation-log?subject={}",
        &order["/v1/orders/".len()..]
    );
    let log = service.get(&log, &operator).await.json();
    let reversals = log["data"].as_array().unwrap().iter();
    let reversals = reversals.filter(|action| action["action"] == json!("reverse"));
    assert_eq!(reversals.count(), 1, "{log}");
    service.stop().await;
}

/// The balance of a seller who has left is moved to another user, once.
#[tokio::test]
async fn a_departed_sellers_balance_is_moved() {
    let service = Service::start().await;
    let operator = service.operator();
    service.deposit("sam", 1_000).await;
    let path = "/v1/accounts/sam/transfers";
    let transfer = |reference: &str, to: &str, amount: i64| {
        json!({
            "reference": reference, "to": to, "amount": amount, "currency": "CNY",
        })
    };
    let sam = service.token("sam", "campaigns:write withdraw pay deposit");
    let refused = service.post(path, &sam, transfer("t-1", "tom", 1)).await;
    refused.assert_problem(403, "forbidden");
    let made = async |body| service.post(path, &operator, body).await;
    let too_much = made(transfer("t-1", "tom", 1_001)).await;
    too_much.assert_problem(409, "insufficient-funds");
    let nothing = made(transfer("t-1", "tom", 0)).await;
    nothing.assert_problem(422, "invalid");
    let same = made(transfer("t-1", "sam", 1)).await;
    same.assert_problem(422, "invalid");
    assert_eq!(same.json()["errors"][0]["pointer"], json!("#/to"));
    let (one, two) = tokio::join!(
        made(transfer("t-1", "tom", 1_000)),
        made(transfer("t-1", "tom", 1_000))
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 201], "{one:?} {two:?}");
    assert_eq!(one.json(), two.json());
    let used = made(transfer("t-1", "una", 1_000)).await;
    used.assert_problem(409, "reference-used");
    assert_eq!(service.balance("sam").await, 0);
    assert_eq!(service.balance("tom").await, 1_000);
    let tom = service.token("tom", "");
    let seen = service.get("/v1/accounts/tom/postings", &tom).await.json();
    assert_eq!(seen["data"][0]["kind"], json!("transfer"), "{seen}");
    assert_eq!(seen["data"][0]["reference"], json!("t-1"));
    let log = service
        .get("/v1/operation-log?subject=sam", &operator)
        .await
        .json();
    let actions = log["data"].as_array().unwrap().iter();
    let actions: Vec<_> = actions
        .filter(|it| it["action"] == json!("transfer"))
        .collect();
    assert_eq!(actions.len(), 1, "{log}");
    assert_eq!(actions[0]["detail"]["to"], json!("tom"));
    service.stop().await;
}

/// Sellers see the refunds due for orders of their sales, by order and in a list. Other users do not.
#[tokio::test]
async fn sellers_see_what_they_owe() {
    let service = Service::start().await;
    let (operator, sam) = (service.operator(), service.token("sam", ""));
    let sale = service.sale(3, |body| body["seller"] = json!("sam")).await;
    let mut orders = Vec::new();
    for buyer in ["ann", "bob"] {
        let path = format!("/v1/sales/{sale}/orders");
        let order = service.act(&path, &service.token(buyer, "claim")).await;
        let order = order.text("id");
        for reference in ["p", "q"] {
            let (path, reference) = (
                format!("/v1/orders/{order}/payment"),
                format!("{reference}-{buyer}"),
            );
            service.post(&path, &operator, paid(&reference, 500)).await;
        }
        orders.push(order);
    }
    let first = service.get("/v1/refunds-due?limit=1", &sam).await;
    let next = format!(
        "</v1/refunds-due?limit=1&after={}>; rel=\"next\"",
        cursor("refunds_due", &orders[0])
    );
    assert_eq!(
        (first.status, first.header("link")),
        (200, &*next),
        "{first:?}"
    );
    let money = |amount: i64| json!({ "amount": amount, "currency": "CNY" });
    let listed = json!({
        "order": orders[0], "user": "ann", "due": money(500), "refunded": money(0), "outstanding": money(500),
    });
    assert_eq!(first.json()["data"], json!([listed]));
    let path = format!("/v1/refunds-due?limit=1&after={}", first.text("next"));
    let last = service.get(&path, &sam).await;
    assert_eq!(last.json()["data"][0]["user"], json!("bob"));
    assert!(
        last.json()["next"].is_null() && last.header("link").is_empty(),
        "{last:?}"
    );

    let path = format!("/v1/orders/{}/refunds", orders[0]);
    assert_eq!(service.get(&path, &sam).await.json()["due"], money(500));
    let tom = service.token("tom", "");
    service
        .get(&path, &tom)
        .await
        .assert_problem(404, "not-found");
    service.post(&path, &operator, paid("r-1", 500)).await;
    let seen = async |query: &str, token: &str| {
        let reply = service.get(&format!("/v1/refunds-due{query}"), token).await;
        let orders = reply.json()["data"].clone();
        let orders = orders
            .as_array()
            .unwrap_or_else(|| panic!("{reply:?}"))
            .iter();
        orders.map(|one| one["user"].clone()).collect::<Vec<_>>()
    };
    let reader = service.token("rita", "read:any");
    assert_eq!(seen("", &sam).await, [json!("bob")]);
    assert_eq!(seen("?all=true", &reader).await, [json!("bob")]);
    assert_eq!(seen("?owner=sam", &reader).await, [json!("bob")]);
    assert_eq!(seen("", &tom).await, [] as [serde_json::Value; 0]);
    for query in ["?all=true", "?owner=sam"] {
        let refused = service.get(&format!("/v1/refunds-due{query}"), &tom).await;
        refused.assert_problem(403, "forbidden");
    }
    let both = service
        .get("/v1/refunds-due?all=true&owner=sam", &reader)
        .await;
    both.assert_problem(422, "invalid");
    let nowhere = service.get("/v1/refunds-due?after=x", &sam).await;
    nowhere.assert_problem(400, "bad-request");
    service.stop().await;
}

#[tokio::test]
async fn accounts_are_paid_out_and_deposits_reversed() {
    let service = Service::start().await;
    let operator = service.operator();
    let path = "/v1/accounts/ann";
    let body = crate::node::http::common::deposit(100);
    let deposit = service
        .post(&format!("{path}/deposits"), &operator, body)
        .await;
    let withdraw = async |reference: &str, amount: i64| {
        let body = json!({ "reference": reference, "amount": amount, "currency": "CNY" });
        service
            .post(&format!("{path}/withdrawals"), &operator, body)
            .await
    };
    withdraw("w-1", 101)
        .await
        .assert_problem(409, "insufficient-funds");
    withdraw("w-1", 0).await.assert_problem(422, "invalid");
    let made = withdraw("w-1", 30).await;
    assert_eq!(
        (made.status, made.header("location")),
        (201, path),
        "{made:?}"
    );
    assert_eq!(withdraw("w-1", 30).await.status, 200);
    withdraw("w-1", 31)
        .await
        .assert_problem(409, "reference-used");
    assert_eq!(service.balance("ann").await, 70);

    let reversal = format!("{path}/deposits/{}/reversal", deposit.text("id"));
    let short = service.act(&reversal, &operator).await;
    short.assert_problem(409, "insufficient-funds");
    service.deposit("ann", 30).await;
    for status in [201, 200] {
        let reversed = service.act(&reversal, &operator).await;
        assert_eq!(reversed.status, status, "{reversed:?}");
        assert_eq!(reversed.json()["amount"]["amount"], json!(100));
    }
    assert_eq!(service.balance("ann").await, 0);
    let of_bob = reversal.replace("ann", "bob");
    service
        .act(&of_bob, &operator)
        .await
        .assert_problem(404, "not-found");
    let no_id = service
        .act(&format!("{path}/deposits/x/reversal"), &operator)
        .await;
    no_id.assert_problem(400, "bad-request");
    let ann = service.token("ann", "send claim");
    let refused = service.act(&reversal, &ann).await;
    refused.assert_problem(403, "forbidden");
    let body = json!({ "reference": "w-2", "amount": 1, "currency": "CNY" });
    let withdrawals = format!("{path}/withdrawals");
    let refused = service.post(&withdrawals, &ann, body).await;
    refused.assert_problem(403, "forbidden");
    service.stop().await;
}

/// A deposit is reversed in parts, each key once. The parts cannot exceed the deposit.
#[tokio::test]
async fn a_deposit_is_reversed_in_parts() {
    let service = Service::start().await;
    let operator = service.operator();
    let path = "/v1/accounts/ann/deposits";
    let body = crate::node::http::common::deposit(100);
    let deposit = service.post(path, &operator, body).await.text("id");
    let deposit = format!("{path}/{deposit}");
    let reversal = format!("{deposit}/reversal");
    let part =
        |minor: i64, currency: &str| json!({ "amount": { "amount": minor, "currency": currency } });
    let reverse = async |key: &str, body| service.post_key(&reversal, &operator, key, body).await;
    let found = async || {
        let found = service.get(&deposit, &operator).await.json();
        (
            found["reversed"].clone(),
            found["reversed_amount"]["amount"].clone(),
        )
    };

    let without_key = service.post(&reversal, &operator, part(30, "CNY")).await;
    without_key.assert_problem(400, "bad-request");
    for status in [201, 200, 200] {
        let made = reverse("a", part(30, "CNY")).await;
        assert_eq!(made.status, status, "{made:?}");
        assert_eq!(made.json()["amount"]["amount"], json!(30));
    }
    assert_eq!(service.balance("ann").await, 70);
    assert_eq!(found().await, (json!(false), json!(30)));
    let other = reverse("a", part(31, "CNY")).await;
    other.assert_problem(422, "key-reused");
    for (body, slug) in [
        (part(71, "CNY"), "reversal-exceeds-deposit"),
        (part(1, "EUR"), "reversal-exceeds-deposit"),
    ] {
        reverse("b", body).await.assert_problem(409, slug);
    }
    reverse("b", part(0, "CNY"))
        .await
        .assert_problem(422, "invalid");
    assert_eq!(reverse("c", part(30, "CNY")).await.status, 201);
    // A reversal without an amount reverses the rest.
    for status in [201, 200] {
        let rest = service.act(&reversal, &operator).await;
        assert_eq!(rest.status, status, "{rest:?}");
        assert_eq!(rest.json()["amount"]["amount"], json!(40));
    }
    let more = reverse("d", part(1, "CNY")).await;
    more.assert_problem(409, "reversal-exceeds-deposit");
    assert_eq!(service.balance("ann").await, 0);
    assert_eq!(found().await, (json!(true), json!(100)));
    let postings = service
        .get("/v1/accounts/ann/postings?kind=reversal", &operator)
        .await;
    let postings = postings.json()["data"].clone();
    assert_eq!(postings.as_array().map(Vec::len), Some(3), "{postings}");
    for posting in postings.as_array().into_iter().flatten() {
        let reference = posting["reference"].as_str();
        assert_eq!(reference, deposit.rsplit('/').next(), "{posting}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_key_stands_for_one_payout() {
    let service = Service::start().await;
    let operator = service.operator();
    let money = |amount: i64| json!({ "amount": amount, "currency": "CNY" });
    let deposits = "/v1/accounts/ann/deposits";
    let deposit = async |amount| {
        service
            .post(
                deposits,
                &operator,
                crate::node::http::common::deposit(amount),
            )
            .await
    };
    let (first, second) = (deposit(100).await.text("id"), deposit(50).await.text("id"));
    let withdraw = async |key: &str, amount: i64| {
        let mut body = money(amount);
        body["reference"] = json!(format!("w-{amount}"));
        let path = "/v1/accounts/ann/withdrawals";
        service.post_key(path, &operator, key, body).await
    };
    assert_eq!(withdraw("k", 10).await.status, 201);
    assert_eq!(withdraw("k", 10).await.status, 200);
    withdraw("k", 20).await.assert_problem(422, "key-reused");
    withdraw("\"half", 20)
        .await
        .assert_problem(400, "bad-request");
    let reverse = async |id: &str| {
        let path = format!("{deposits}/{id}/reversal");
        service.post_key(&path, &operator, "r", json!({})).await
    };
    assert_eq!(reverse(&second).await.status, 201);
    reverse(&first).await.assert_problem(422, "key-reused");
    assert_eq!(service.balance("ann").await, 90);
    service.stop().await;
}
