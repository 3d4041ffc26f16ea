//! Requests of one user for objects of another.

use crate::node::http::common::Service;
use serde_json::json;

#[tokio::test]
async fn anothers_order_is_not_there() {
    let service = Service::start().await;
    let sale = service.sale(9, |_| ()).await;
    let (ann, bob) = (
        service.token("ann", "claim"),
        service.token("bob", "claim send"),
    );
    let ordered = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    assert_eq!(ordered.status, 201);
    let order = format!("/v1/orders/{}", ordered.text("id"));
    assert_eq!(service.get(&order, &ann).await.status, 200);

    let missing = service.get(&order, &bob).await;
    missing.assert_problem(404, "not-found");
    // The same answer as for an order that does not exist, so that it reveals nothing.
    let nobodys = format!("/v1/orders/{sale}-999");
    let nothing = service.get(&nobodys, &bob).await;
    nothing.assert_problem(404, "not-found");
    assert_eq!(missing.json()["detail"], nothing.json()["detail"]);
    for act in ["cancellation", "return"] {
        let reply = service.act(&format!("{order}/{act}"), &bob).await;
        reply.assert_problem(404, "not-found");
    }
    let payment = json!({"reference": "stolen", "amount": {"amount": 1, "currency": "CNY"}});
    let paid = service
        .post(&format!("{order}/payment"), &bob, payment)
        .await;
    paid.assert_problem(403, "forbidden");
    assert_eq!(service.get(&order, &ann).await.json()["state"], "held");
    service.stop().await;
}

#[tokio::test]
async fn anothers_place_and_anothers_money_are_not_told() {
    let service = Service::start().await;
    let sale = service
        .sale(9, |body| body["waiting_room"] = json!(true))
        .await;
    let ann = service.token("ann", "claim");
    let waits = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    assert_eq!(waits.status, 202);
    let place = format!("/v1/campaigns/{sale}/queue-entry");
    assert_eq!(service.get(&place, &ann).await.status, 200);
    let bob = service.token("bob", "claim send");
    service
        .get(&place, &bob)
        .await
        .assert_problem(404, "no-queue-entry");
    service.deposit("ann", 500).await;
    service
        .get("/v1/accounts/ann", &bob)
        .await
        .assert_problem(403, "forbidden");
    let listed = service.get("/v1/sales?owner=ann", &bob).await;
    listed.assert_problem(403, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn what_a_user_has_done_is_not_told_to_another() {
    let service = Service::start().await;
    let sale = service.sale(9, |_| ()).await;
    let ann = service.token("ann", "claim");
    let ordered = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
    let payment = format!("/v1/orders/{}/payment", ordered.text("id"));
    let paid = crate::node::http::common::paid("pay-1", 500);
    let paid = service.post(&payment, &service.operator(), paid).await;
    assert_eq!(paid.status, 200);
    let money = crate::node::http::common::deposit(5);
    let path = "/v1/accounts/ann/deposits";
    let deposit = service.post(path, &service.operator(), money).await;
    let deposit = format!("deposits/{}", deposit.text("id"));
    let lists = [
        "claims",
        "orders",
        "orders?state=held",
        "postings",
        &deposit,
    ];
    for scope in ["", "claim send campaigns:write:any deposit pay withdraw"] {
        let bob = service.token("bob", scope);
        // A user with the scope `deposit` may see deposits.
        let lists = lists
            .iter()
            .filter(|list| **list != deposit || scope.is_empty());
        for list in lists {
            let path = format!("/v1/accounts/ann/{list}");
            let reply = service.get(&path, &bob).await;
            reply.assert_problem(403, "forbidden");
            assert_eq!(reply.text("scope"), "read:any");
            assert_eq!(service.get(&path, &ann).await.status, 200);
        }
        // The deposit is not found under the user's own name either.
        let own = format!("/v1/accounts/bob/{deposit}");
        service
            .get(&own, &bob)
            .await
            .assert_problem(404, "not-found");
        let found = service.get("/v1/payments/pay-1", &bob).await;
        let nothing = service.get("/v1/payments/pay-2", &bob).await;
        nothing.assert_problem(404, "not-found");
        // Programs that report payments may read them.
        match scope.contains("pay") {
            true => assert_eq!(found.status, 200, "{found:?}"),
            false => assert_eq!(found.json()["detail"], nothing.json()["detail"]),
        }
    }
    assert_eq!(service.get("/v1/payments/pay-1", &ann).await.status, 200);
    service.stop().await;
}
