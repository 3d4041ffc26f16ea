//! The rest of a red packet returns to its sender at the configured time.

use crate::node::http::common::Service;
use serde_json::json;

/// A packet without an end is refunded exactly after `packets.refund_after_ms`, and a packet with an end at its end.
/// Neither is refunded twice, by time or by a restart.
#[tokio::test]
async fn a_packet_without_an_end_is_refunded_after_a_while() {
    let hour = |config: &mut qiang::config::NodeConfig| config.packets.refund_after_ms = 3_600_000;
    let service = Service::start_with(|config, _| hour(config)).await;
    let id = service.red_packet(4, |_| ()).await;
    let other = service
        .red_packet(4, |body| body["ends_at"] = json!("2026-11-21T12:30:00Z"))
        .await;
    let packet = |id: &str| format!("/v1/red-packets/{id}");
    let claim = format!("{}/claims", packet(&id));
    let claimed = service
        .post(&claim, &service.token("ann", "claim"), json!({}))
        .await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let own = claimed.json()["amount"]["amount"].as_i64().unwrap();
    service.clock.advance_ms(1_800_000);
    let closed = async |id: &str| {
        let path = packet(id);
        let state = service.get(&path, &service.token("sam", "")).await;
        state.json()["state"]["phase"].clone()
    };
    settle(async || closed(&other).await == json!("closed")).await;
    assert_eq!(service.balance("sam").await, 10_000);
    service.clock.advance_ms(1_800_000 - 1);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(closed(&id).await, json!("live"));
    assert_eq!(service.balance("sam").await, 10_000);
    service.clock.advance_ms(1);
    settle(async || closed(&id).await == json!("closed")).await;
    let all = 20_000 - own;
    assert_eq!(service.balance("sam").await, all);
    let service = service.restart_with(|config, _| hour(config)).await;
    service.clock.advance_ms(100 * 3_600_000);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(service.balance("sam").await, all);
    assert_eq!(service.balance("ann").await, own);
    service.stop().await;
}

/// Waits for the effect of a tick.
async fn settle(is_so: impl AsyncFn() -> bool) {
    for _ in 0..200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the expected state is not reached");
}
