//! Webhooks of sellers: each receives and sees the events of the seller's own campaigns alone.

use serde_json::{Value, json};

use crate::node::http::{
    common::{Reply, Service, call},
    receiver::Receiver,
    webhook_orders::{arrive, holds_long, types_of},
    webhooks::{adjust, order, until},
};

async fn make(service: &Service, seller: &str, body: Value) -> Reply {
    let token = service.token(seller, "campaigns:write");
    service.post("/v1/webhooks", &token, body).await
}

/// A webhook of this seller for a receiver. Returns its path.
async fn own(service: &Service, seller: &str, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url(), "types": ["order.held"]});
    let made = make(service, seller, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    receiver.knows(&made.text("secret"));
    let fields = [made.text("owner"), made.text("managed_by")];
    assert_eq!(fields, [seller, seller]);
    format!("/v1/webhooks/{}", made.text("id"))
}

#[tokio::test]
async fn a_seller_receives_own_events_alone() {
    let service = Service::start_with(adjust).await;
    let (sam, tom) = (Receiver::start().await, Receiver::start().await);
    own(&service, "sam", &sam).await;
    let of_tom = own(&service, "tom", &tom).await;
    let sale_of = async |seller: &str| {
        let seller = seller.to_owned();
        let adjust = |body: &mut Value| {
            holds_long(body);
            body["seller"] = json!(seller);
        };
        service.sale(9, adjust).await
    };
    let (own_sale, other_sale) = (sale_of("sam").await, sale_of("tom").await);
    for user in ["u0", "u1"] {
        order(&service, &own_sale, user).await;
    }
    order(&service, &other_sale, "u2").await;
    arrive(&sam, 2).await;
    arrive(&tom, 1).await;
    assert_eq!(types_of(&tom, "u2"), ["order.held"]);
    assert_eq!(types_of(&sam, "u2"), Vec::<String>::new());
    // The log of another seller does not exist for this one, and it names no body, because addresses may be private.
    let token = service.token("tom", "campaigns:write");
    let listed = service.get(&format!("{of_tom}/deliveries"), &token).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let other = service.token("sam", "campaigns:write");
    service
        .get(&format!("{of_tom}/deliveries"), &other)
        .await
        .assert_problem(404, "not-found");
    service.stop().await;
}

#[tokio::test]
async fn a_seller_manages_own_webhooks_alone() {
    let service = Service::start_with(adjust).await;
    let receiver = Receiver::start().await;
    let path = own(&service, "sam", &receiver).await;
    let (sam, tom) = (
        service.token("sam", "campaigns:write"),
        service.token("tom", "campaigns:write"),
    );
    let operator = service.operator();
    let ids = async |token: &str| {
        let list = service.get("/v1/webhooks", token).await;
        assert_eq!(list.status, 200, "{list:?}");
        let list = list.json();
        let all = list["data"].as_array().unwrap().iter();
        all.map(|it| format!("/v1/webhooks/{}", it["id"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&sam).await, std::slice::from_ref(&path));
    assert_eq!(ids(&tom).await, Vec::<String>::new());
    assert_eq!(ids(&operator).await, std::slice::from_ref(&path));
    let claims = service.token("sam", "claim");
    let list = service.get("/v1/webhooks", &claims).await;
    list.assert_problem(403, "forbidden");
    for (method, end, body) in [
        ("GET", "", None),
        ("PATCH", "", Some(json!({"enabled": false}))),
        ("GET", "/deliveries", None),
        ("POST", "/test", None),
        ("POST", "/redrive", None),
        (
            "POST",
            "/redeliver",
            Some(json!({"given_up_since": "2026-01-01T00:00:00Z"})),
        ),
        ("POST", "/secret", None),
        ("DELETE", "", None),
    ] {
        let path = format!("{path}{end}");
        let ask = async |token: &str| {
            call(service.addr, method, &path, Some(token), &[], body.clone()).await
        };
        ask(&tom).await.assert_problem(404, "not-found");
        ask(&claims).await.assert_problem(403, "forbidden");
        let done = ask(&sam).await;
        assert!(
            [200, 204].contains(&done.status),
            "{method} {path}: {done:?}"
        );
    }
    assert_eq!(ids(&operator).await, Vec::<String>::new());

    // Only an operator names another owner. A seller's webhook keeps its own.
    let body = json!({"url": receiver.url(), "owner": "tom"});
    make(&service, "sam", body)
        .await
        .assert_problem(403, "forbidden");
    let path = own(&service, "sam", &receiver).await;
    for owner in [json!("tom"), Value::Null] {
        for token in [&sam, &operator] {
            let change = service.patch(&path, token, json!({ "owner": owner })).await;
            change.assert_problem(422, "invalid");
            assert_eq!(change.json()["errors"][0]["pointer"], "#/owner");
        }
    }
    let same = service.patch(&path, &sam, json!({"owner": "sam"})).await;
    assert_eq!(same.status, 200, "{same:?}");
    for _ in 0..4 {
        own(&service, "sam", &receiver).await;
    }
    let sixth = make(&service, "sam", json!({"url": receiver.url()})).await;
    sixth.assert_problem(422, "invalid");
    own(&service, "tom", &receiver).await;
    until("the operator sees all", async || {
        ids(&operator).await.len() == 6
    })
    .await;
    service.stop().await;
}
