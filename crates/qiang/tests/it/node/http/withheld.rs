//! Withheld units of repairs in the numbers that clients read.

use std::sync::Arc;

use crate::node::http::common::{Service, call};
use qiang_core::{
    book::{Claim, Command, OrderView, Reply as Decided},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, PendingReply, ProbeResult},
};
use serde_json::json;

/// Units, and minor units, of each campaign that [`Withholding`] withholds.
const UNITS: u64 = 2;
const MINOR: i64 = 3;

/// An engine with two withheld units in each campaign.
struct Withholding(Arc<dyn Engine>);

impl Engine for Withholding {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.0.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<Decided> {
        self.0.submit(command)
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.0.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        let (answer, ticket) = PendingReply::new();
        let known = self.0.tally(campaign);
        tokio::spawn(async move {
            answer.send(known.await.map(|tally| tally.map(withhold)));
        });
        ticket
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.0.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.0.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.0.ack_levels()
    }
}

fn withhold(tally: Tally) -> Tally {
    let minor = if tally.funded_minor > 0 { MINOR } else { 0 };
    let tally = Tally {
        remaining: tally.remaining - UNITS,
        withheld: UNITS,
        remaining_minor: tally.remaining_minor - minor,
        withheld_minor: minor,
        ..tally
    };
    assert!(tally.conserves(), "{tally:?}");
    tally
}

#[tokio::test]
async fn withheld_units_are_in_the_numbers_of_a_campaign() {
    let service = Service::start_with(|_, backend| {
        let engine = &mut backend.ports.engine;
        *engine = Arc::new(Withholding(Arc::clone(engine)));
    })
    .await;
    let operator = service.operator();
    let id = service.sale(5, |_| ()).await;
    let numbers = async || {
        let path = format!("/v1/campaigns/{id}/state");
        let body = call(service.addr, "GET", &path, None, &[], None)
            .await
            .json();
        ["supply", "granted", "remaining", "returned", "withheld"].map(|name| body[name].clone())
    };
    assert_eq!(numbers().await, [5, 0, 3, 0, 2].map(|n| json!(n)));
    let path = format!("/v1/sales/{id}");
    assert_eq!(service.get(&path, &operator).await.json()["stock"], 5);

    // The new stock counts only units that the engine can still grant.
    let changed = service.patch(&path, &operator, json!({ "stock": 3 })).await;
    assert_eq!((changed.status, &changed.json()["stock"]), (200, &json!(3)));
    assert_eq!(numbers().await, [3, 0, 1, 0, 2].map(|n| json!(n)));

    let packet = service.red_packet(3, |_| ()).await;
    let path = format!("/v1/red-packets/{packet}");
    let body = service.get(&path, &operator).await.json();
    assert_eq!(body["withheld"]["amount"], MINOR);
    let amounts = ["claimed", "remaining", "refunded", "withheld", "total"];
    let [claimed, remaining, refunded, withheld, total] =
        amounts.map(|name| body[name]["amount"].as_i64().unwrap());
    assert_eq!(claimed + remaining + refunded + withheld, total);
    service.stop().await;
}
