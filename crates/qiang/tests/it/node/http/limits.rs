//! Features that the configuration turns on: the route for benchmarks, and returns by buyers.

use crate::node::http::common::{Service, call, paid};

#[tokio::test]
async fn the_noop_route_is_off_unless_asked_for() {
    let unknown = "/v1/noop/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80/claims";
    let service = Service::start().await;
    service
        .act(unknown, &service.token("ann", "claim"))
        .await
        .assert_problem(404, "not-found");
    service.stop().await;
    let service = Service::start_with(|config, _| config.server.noop_route = true).await;
    service
        .act(unknown, &service.token("ann", "claim"))
        .await
        .assert_problem(404, "unknown-campaign");
    let id = service.red_packet(9, |_| ()).await;
    let path = &format!("/v1/noop/{id}/claims");
    let reply = service.act(path, &service.token("ann", "claim")).await;
    assert_eq!(reply.status, 201);
    let grant = service
        .act(
            &format!("/v1/red-packets/{id}/claims"),
            &service.token("ann", "claim"),
        )
        .await;
    assert!(
        grant.body.len().abs_diff(reply.body.len()) <= 8,
        "{grant:?} {reply:?}"
    );
    call(service.addr, "POST", path, None, &[], None)
        .await
        .assert_problem(401, "unauthenticated");
    service.stop().await;
}

#[tokio::test]
async fn a_buyer_returns_in_time_and_a_seller_always() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 5_000).await;
    let id = service.sale(9, |_| ()).await;
    let mut orders = Vec::new();
    for user in ["ann", "bob"] {
        let path = format!("/v1/sales/{id}/orders");
        let order = service.act(&path, &service.token(user, "claim")).await;
        orders.push(format!("/v1/orders/{}", order.text("id")));
    }
    let (ann, bob) = (service.token("ann", ""), service.token("bob", ""));
    let state = async || service.get(&format!("/v1/sales/{id}"), &ann).await.json();
    let back = |n: usize| format!("{}/return", orders[n]);
    service
        .act(&back(0), &ann)
        .await
        .assert_problem(409, "order-conflict");
    for order in &orders {
        let (path, paid) = (format!("{order}/payment"), paid(&order[11..], 500));
        let paid = service.post(&path, &service.operator(), paid).await;
        assert_eq!(paid.status, 200, "{paid:?}");
    }
    service.clock.advance_ms(4_999);
    service
        .act(&back(0), &bob)
        .await
        .assert_problem(404, "not-found");
    assert_eq!(service.act(&back(0), &ann).await.status, 200);
    service.clock.advance_ms(1);
    // A replay of a return that was in time.
    assert_eq!(service.act(&back(0), &ann).await.status, 200);
    service
        .act(&back(1), &bob)
        .await
        .assert_problem(403, "return-period-over");
    let seller = service.token("olga", "campaigns:write");
    for token in [&seller, &bob] {
        let returned = service.act(&back(1), token).await;
        let body = returned.json();
        assert_eq!(
            (
                returned.status,
                &body["state"],
                &body["refundable_payments"]
            ),
            (200, &serde_json::json!("returned"), &serde_json::json!(1))
        );
    }
    assert_eq!(state().await["state"]["remaining"], serde_json::json!(9));
    service.stop().await;
}
