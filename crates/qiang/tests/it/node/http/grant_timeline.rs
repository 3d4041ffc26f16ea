//! Grants of a campaign over its whole life, over HTTP.

use serde_json::json;

use crate::node::http::common::{Service, paid};

#[tokio::test]
async fn timeline_has_each_grant_and_payment_for_the_owner() {
    let service = Service::start().await;
    let sale = service.sale(5, |body| body["seller"] = json!("sam")).await;
    let packet = service.red_packet(3, |_| ()).await;
    let mut orders = Vec::new();
    for user in ["ann", "bob", "cid"] {
        let token = service.token(user, "claim");
        let order = json!({ "quantity": 1 });
        let order = service
            .post(&format!("/v1/sales/{sale}/orders"), &token, order)
            .await;
        orders.push(order.json());
        let claim = service
            .post(
                &format!("/v1/red-packets/{packet}/claims"),
                &token,
                json!({}),
            )
            .await;
        assert_eq!(claim.status, 201, "{claim:?}");
        service.clock.advance_ms(1_000);
    }
    let id = orders[1]["id"].as_str().unwrap();
    let payment = service
        .post(
            &format!("/v1/orders/{id}/payment"),
            &service.token("pay", "pay"),
            paid("pay-1", 500),
        )
        .await;
    assert_eq!(payment.status, 200, "{payment:?}");

    let timeline = async |id: &str, user: &str, scope: &str| {
        let path = format!("/v1/campaigns/{id}/grant-timeline");
        service.get(&path, &service.token(user, scope)).await
    };
    let seen = timeline(&sale, "sam", "").await;
    assert_eq!(seen.status, 200, "{seen:?}");
    assert_eq!(seen.header("cache-control"), "private, max-age=5");
    let body = seen.json();
    assert_eq!(
        (&body["last_number"], &body["sampled"], &body["settled"]),
        (&json!(3), &json!(false), &json!(true))
    );
    let points = body["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for (point, order) in points.iter().zip(&orders) {
        assert_eq!(point["created_at"], order["created_at"]);
    }
    let is_paid: Vec<_> = points.iter().map(|it| it["paid_at"].is_string()).collect();
    assert_eq!(is_paid, [false, true, false]);
    assert!(points[1]["paid_at"].as_str() > points[2]["created_at"].as_str());

    let shares = timeline(&packet, "sam", "").await.json();
    assert_eq!(shares["last_number"], 3);
    assert_eq!(shares["points"].as_array().unwrap().len(), 3);
    for id in [&sale, &packet] {
        let refused = timeline(id, "eve", "claim send campaigns:write:any").await;
        refused.assert_problem(403, "forbidden");
        assert_eq!(refused.text("scope"), "read:any");
        assert_eq!(timeline(id, "eve", "read:any").await.status, 200);
    }
    let none = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let unknown = timeline(none, "sam", "").await;
    unknown.assert_problem(404, "unknown-campaign");
    service.stop().await;
}
