//! A node with another clock than its engine.

use std::sync::Arc;

use qiang_core::{ports::Clock, time::Timestamp};
use serde_json::json;

use crate::node::http::common::{Service, sale};

/// Offset of the node's clock, ahead or behind.
const OFFSET_MS: i64 = 300_000;

/// A clock with a constant offset in milliseconds.
struct Wrong(Arc<dyn Clock>, i64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        self.0.now().plus_millis(self.1)
    }
}

#[tokio::test]
async fn a_campaign_without_a_start_opens_at_once_whatever_the_nodes_clock_says() {
    for offset_ms in [OFFSET_MS, -OFFSET_MS] {
        let service = Service::start_with(|_, backend| {
            let clock = &mut backend.ports.clock;
            *clock = Arc::new(Wrong(Arc::clone(clock), offset_ms));
        })
        .await;
        let before = service.clock.now();
        let made = service
            .post("/v1/sales", &service.operator(), sale(5))
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        let made = made.json();
        let starts_at: jiff::Timestamp = made["state"]["starts_at"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let could = before.as_millis()..=service.clock.now().as_millis();
        let starts_at = starts_at.as_millisecond();
        assert!(could.contains(&starts_at), "{starts_at} in {could:?}");
        assert_eq!(made["state"]["phase"], "live", "{made}");
        let path = format!("/v1/sales/{}/orders", made["id"].as_str().unwrap());
        let ann = service.token("ann", "claim");
        let bought = service.post(&path, &ann, json!({ "quantity": 1 })).await;
        assert_eq!(bought.status, 201, "{bought:?}");
        service.stop().await;
    }
}
