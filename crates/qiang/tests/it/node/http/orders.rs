//! Orders of a sale, as its seller reads them.

use crate::node::http::common::Service;
use serde_json::{Value, json};

async fn list(service: &Service, sale: &str, query: &str, token: &str) -> (Value, String) {
    let path = format!("/v1/sales/{sale}/orders{query}");
    let reply = service.get(&path, token).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json()["settled"], json!(true));
    (reply.json(), reply.header("link").to_owned())
}

#[tokio::test]
async fn a_seller_sees_the_orders_of_a_sale_page_by_page() {
    let service = Service::start().await;
    let sale = service.sale(9, |body| body["seller"] = json!("shop")).await;
    let mut orders = Vec::new();
    for user in ["ann", "bob", "cid", "dan", "eve"] {
        let path = format!("/v1/sales/{sale}/orders");
        let ordered = service.act(&path, &service.token(user, "claim")).await;
        orders.push(ordered.text("id"));
    }
    let price = json!({"reference": "p1", "amount": {"amount": 500, "currency": "CNY"}});
    let pay = format!("/v1/orders/{}/payment", orders[1]);
    let paid = service.post(&pay, &service.operator(), price).await;
    assert_eq!(paid.status, 200, "{paid:?}");
    let cancel = format!("/v1/orders/{}/cancellation", orders[2]);
    let cancelled = service.act(&cancel, &service.token("cid", "claim")).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");

    let shop = service.token("shop", "");
    let (all, link) = list(&service, &sale, "", &shop).await;
    let rows = all["data"].as_array().unwrap();
    let seen = rows.iter().map(|row| {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        (text("id"), text("user"), text("state"))
    });
    let states = ["held", "paid", "cancelled", "held", "held"];
    let users = ["ann", "bob", "cid", "dan", "eve"].into_iter().zip(states);
    let expected = orders.iter().zip(users);
    let expected =
        expected.map(|(order, (user, state))| (order.clone(), user.to_owned(), state.to_owned()));
    assert!(seen.eq(expected), "{all}");
    assert_eq!(rows[0]["amount"], json!({"amount": 500, "currency": "CNY"}));
    assert_eq!(
        (&rows[0]["quantity"], &rows[0]["number"]),
        (&json!(1), &json!(1))
    );
    assert_eq!((&all["next"], link.as_str()), (&Value::Null, ""));

    // The same orders in pages of two, by the links.
    let (mut query, mut numbers) = ("?limit=2".to_owned(), Vec::new());
    loop {
        let (page, link) = list(&service, &sale, &query, &shop).await;
        let rows = page["data"].as_array().unwrap();
        numbers.extend(rows.iter().map(|row| row["number"].as_u64().unwrap()));
        let Some(rest) = link.split_once('?') else {
            break;
        };
        query = format!("?{}", rest.1.split('>').next().unwrap());
        assert!(
            query.ends_with(&format!("after={}", page["next"].as_str().unwrap())),
            "{query}"
        );
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    service.stop().await;
}

#[tokio::test]
async fn only_the_seller_and_operators_see_them() {
    let service = Service::start().await;
    let sale = service.sale(9, |body| body["seller"] = json!("shop")).await;
    let path = format!("/v1/sales/{sale}/orders");
    let buyer = service.token("ann", "claim send");
    assert_eq!(service.act(&path, &buyer).await.status, 201);
    service
        .get(&path, &buyer)
        .await
        .assert_problem(403, "forbidden");
    assert_eq!(service.get(&path, &service.operator()).await.status, 200);
    service
        .get(&format!("{path}?limit=0"), &service.operator())
        .await
        .assert_problem(400, "bad-request");
    let packet = service.red_packet(2, |_| ()).await;
    let packet = format!("/v1/sales/{packet}/orders");
    service
        .get(&packet, &service.operator())
        .await
        .assert_problem(404, "unknown-campaign");
    service.stop().await;
}
