//! Closing packets that are claimed, with a ledger and an engine that do as they are told.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "settlement/fakes.rs"]
mod fakes;

use std::sync::{Arc, Mutex};

use fakes::{FakeLedger, broken};
use qiang_control::{
    host::{Host, Schedule},
    packets::PacketCloser,
};
use qiang_core::{
    book::{CampaignAction, Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, Probed, Ticket},
};
use qiang_testkit::campaign::id;
use tokio::time::sleep;

/// An engine that only closes campaigns, and refuses some.
#[derive(Default)]
struct FakeEngine {
    closed: Mutex<Vec<CampaignId>>,
    refused: Mutex<Option<CampaignId>>,
}

impl FakeEngine {
    fn closed(&self) -> Vec<CampaignId> {
        std::mem::take(&mut *self.closed.lock().unwrap())
    }
}

impl Engine for FakeEngine {
    fn claim(&self, _: Claim) -> Ticket<Claimed> {
        Ticket::ready(Err(EngineError::Stopping))
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        let Command::Act {
            campaign,
            action: CampaignAction::Close,
        } = command
        else {
            return Ticket::ready(Err(EngineError::Stopping));
        };
        if *self.refused.lock().unwrap() == Some(campaign) {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        self.closed.lock().unwrap().push(campaign);
        Ticket::ready(Ok(Reply::Acted(Tally::default())))
    }

    fn peek(&self, _: &Claim) -> Option<Outcome> {
        None
    }

    fn tally(&self, _: CampaignId) -> Ticket<Option<Tally>> {
        Ticket::ready(Ok(None))
    }

    fn order(&self, _: OrderId) -> Ticket<Option<OrderView>> {
        Ticket::ready(Ok(None))
    }

    fn probe(&self, _: PartitionId) -> Ticket<Probed> {
        Ticket::ready(Ok(Probed::Ready))
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[]
    }
}

#[tokio::test(start_paused = true)]
async fn packets_are_closed_and_one_that_fails_holds_up_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let closer = PacketCloser::new(ledger.clone(), engine.clone());
    assert!(matches!(closer.close_all().await, Ok(0)));
    *ledger.claimed.lock().unwrap() = Ok((1..=3).map(id).collect());
    *engine.refused.lock().unwrap() = Some(id(2));
    let failed = closer.close_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(2).to_string()), "{failed}");
    assert_eq!(engine.closed(), [id(1), id(3)]);

    // The ledger is told by settlement; until then they are closed again.
    *engine.refused.lock().unwrap() = None;
    assert!(matches!(closer.close_all().await, Ok(3)));
    assert_eq!(engine.closed(), [id(1), id(2), id(3)]);

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = PacketCloser::SCHEDULE;
    *ledger.claimed.lock().unwrap() = Err(broken());
    host.start("packets", PacketCloser::SCHEDULE, closer);
    sleep(interval / 2).await;
    assert!(host.stuck().unwrap().starts_with("packets: "));
    *ledger.claimed.lock().unwrap() = Ok(vec![id(4)]);
    sleep(interval).await;
    assert_eq!((engine.closed(), host.stuck()), (vec![id(4)], None));
    host.stop().await;
}
