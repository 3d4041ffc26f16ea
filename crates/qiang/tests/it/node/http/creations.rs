//! Limits of a user's campaigns and shares.

use crate::node::http::common::{Service, packet, sale};
use qiang::config::{LimitsConfig, NodeConfig};
use serde_json::json;

async fn limited(adjust: impl FnOnce(&mut LimitsConfig)) -> Service {
    let service = Service::start_with(|config, _| adjust(&mut config.limits)).await;
    service.deposit("sam", 1_000_000).await;
    service.deposit("tom", 1_000_000).await;
    service
}

impl Service {
    async fn send(&self, user: &str, key: &str, shares: u32) -> crate::node::http::common::Reply {
        let token = self.token(user, "send");
        let body = packet(200_000, shares);
        self.post_key("/v1/red-packets", &token, key, body).await
    }
}

#[tokio::test]
async fn a_user_makes_so_many_campaigns() {
    let service = limited(|limits| limits.creations_per_user_per_minute = 3).await;
    assert_eq!(service.send("sam", "a", 1).await.status, 201);
    // Invalid requests do not count.
    for _ in 0..5 {
        service
            .send("sam", "b", 0)
            .await
            .assert_problem(422, "invalid");
    }
    assert_eq!(service.send("sam", "c", 1).await.status, 201);
    // Retries and sales count.
    assert_eq!(service.send("sam", "a", 1).await.status, 200);
    let token = service.token("sam", "campaigns:write");
    let refused = service.post("/v1/sales", &token, sale(1)).await;
    refused.assert_problem(429, "creations-throttled");
    let wait = refused.header("retry-after").to_owned();
    assert!((10..=20).contains(&wait.parse::<u32>().unwrap()), "{wait}");
    assert_eq!(
        refused.header("ratelimit"),
        format!("\"creations-of-user\";r=0;t={wait}")
    );
    let policy = "\"creations-of-user\";q=3;w=60";
    assert_eq!(refused.header("ratelimit-policy"), policy);
    assert_eq!(
        refused.json()["violated-policies"],
        json!(["creations-of-user"])
    );
    assert_eq!(service.send("tom", "a", 1).await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn a_packet_costs_its_sender_its_shares() {
    let service = limited(|limits| {
        limits.shares_max = 8;
        limits.shares_per_user_per_minute = 10;
    })
    .await;
    assert_eq!(service.send("sam", "a", 8).await.status, 201);
    let before = service.balance("sam").await;
    let refused = service.send("sam", "b", 8).await;
    refused.assert_problem(429, "creations-throttled");
    let wait: u32 = refused.header("retry-after").parse().unwrap();
    assert!((30..=36).contains(&wait), "{wait}");
    assert_eq!(
        refused.header("ratelimit"),
        format!("\"shares-of-user\";r=2;t={wait}")
    );
    assert_eq!(
        refused.header("ratelimit-policy"),
        "\"shares-of-user\";q=10;w=60;qiang-unit=\"shares\""
    );
    // The refused packet was not paid, and its key is free for another request.
    assert_eq!(service.balance("sam").await, before);
    assert_eq!(service.send("sam", "b", 2).await.status, 201);
    service
        .send("sam", "c", 1)
        .await
        .assert_problem(429, "creations-throttled");
    assert_eq!(service.send("tom", "a", 8).await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn the_largest_packet_can_be_sent_whatever_the_budget() {
    let service = limited(|limits| {
        limits.shares_max = 100;
        limits.shares_per_user_per_minute = 1;
    })
    .await;
    assert_eq!(service.send("sam", "a", 100).await.status, 201);
    let refused = service.send("sam", "b", 1).await;
    refused.assert_problem(429, "creations-throttled");
    service.stop().await;
}

#[tokio::test]
async fn by_default_large_packets_do_not_follow_one_another() {
    let service = limited(|limits| {
        let defaults = NodeConfig::defaults().unwrap().limits;
        limits.creations_per_user_per_minute = defaults.creations_per_user_per_minute;
        limits.shares_per_user_per_minute = defaults.shares_per_user_per_minute;
    })
    .await;
    assert_eq!(service.send("sam", "a", 100_000).await.status, 201);
    let refused = service.send("sam", "b", 100_000).await;
    refused.assert_problem(429, "creations-throttled");
    service.stop().await;
}

#[tokio::test]
async fn what_was_created_is_answered_as_it_is_read_afterwards() {
    let service = Service::start().await;
    service.deposit("sam", 10_000).await;
    let mut packet = packet(10_000, 2);
    packet["audience"] = json!({ "users": ["ann", "cid"] });
    let mut sale = sale(2);
    sale["description"] = json!("as new");
    sale["waiting_room"] = json!(true);
    let create = async |path: &str, scope: &str, body| {
        let token = service.token("sam", scope);
        let created = service.post(path, &token, body).await;
        assert_eq!(created.status, 201, "{created:?}");
        let path = format!("{path}/{}", created.text("id"));
        assert_eq!(
            service.get(&path, &token).await.json(),
            created.json(),
            "the clock does not move"
        );
        path
    };
    let packet = create("/v1/red-packets", "send", packet).await;
    let sale = create("/v1/sales", "campaigns:write", sale).await;
    // The rules of claims are known as well.
    let claim = async |user: &str, path: String| {
        let token = service.token(user, "claim");
        service.act(&path, &token).await.status
    };
    assert_eq!(claim("ann", format!("{packet}/claims")).await, 201);
    assert_eq!(claim("bob", format!("{packet}/claims")).await, 403);
    let place = claim("ann", format!("{sale}/orders")).await;
    assert_eq!(place, 202, "the sale has a queue");
    service.stop().await;
}
