//! Two reports of one payment at the same instant.

use std::{sync::Arc, time::Duration};

use crate::node::http::common::{Service, call, paid};
use parking_lot::Mutex;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, PendingReply, ProbeResult, ReplySender},
};

/// An engine to which the first payment comes late.
struct Late {
    engine: Arc<dyn Engine>,
    held: Arc<Mutex<Held>>,
}

enum Held {
    Nothing,
    Payment(Arc<dyn Engine>, Command, ReplySender<Reply>),
    Released,
}

impl Engine for Late {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.engine.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<Reply> {
        let mut held = self.held.lock();
        if matches!((&command, &*held), (Command::Pay { .. }, Held::Nothing)) {
            let (answer, ticket) = PendingReply::new();
            *held = Held::Payment(Arc::clone(&self.engine), command, answer);
            return ticket;
        }
        self.engine.submit(command)
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.engine.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.engine.tally(campaign)
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.engine.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.engine.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.engine.ack_levels()
    }
}

/// The report that is bound first comes to the engine last. Its money is not kept, and that is counted and logged.
#[tokio::test]
async fn the_report_whose_money_is_not_kept_is_named() {
    for (late, early, outcome) in [(499, 500, "paid"), (500, 499, "refund_due")] {
        let held = Arc::new(Mutex::new(Held::Nothing));
        let service = Service::start_with(|_, backend| {
            let engine = Late {
                engine: Arc::clone(&backend.ports.engine),
                held: Arc::clone(&held),
            };
            backend.ports.engine = Arc::new(engine);
        })
        .await;
        let (operator, ann) = (service.operator(), service.token("ann", "claim"));
        let sale = service.sale(1, |_| ()).await;
        let order = service.act(&format!("/v1/sales/{sale}/orders"), &ann).await;
        let path = format!("/v1/orders/{}/payment", order.text("id"));
        let report = async |amount: i64| service.post(&path, &operator, paid("p", amount)).await;
        let second = async {
            while matches!(*held.lock(), Held::Nothing) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let reply = report(early).await;
            let before = std::mem::replace(&mut *held.lock(), Held::Released);
            if let Held::Payment(engine, command, answer) = before {
                answer.send(engine.submit(command).await);
            }
            reply
        };
        let (first, second) = tokio::join!(report(late), second);
        for reply in [first, second] {
            assert_eq!(reply.text("outcome"), outcome, "{reply:?}");
        }
        let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        let line = format!("qiang_payments_total{{outcome=\"{outcome}\",amount=\"differs\"}} 1\n");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
        service.stop().await;
    }
}
