//! Opening drafts, with a ledger and an engine that do as they are told.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "settlement/fakes.rs"]
mod fakes;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fakes::{FakeLedger, broken};
use qiang_control::{
    drafts::DraftOpener,
    host::{Host, Schedule},
};
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, Probed, Ticket},
};
use qiang_testkit::campaign::{id, sale};
use tokio::time::sleep;

/// An engine that only opens campaigns, and refuses some.
#[derive(Default)]
struct FakeEngine {
    opened: Mutex<Vec<CampaignId>>,
    refused: Mutex<Option<CampaignId>>,
    /// What is opened and not there.
    lost: Mutex<Option<CampaignId>>,
}

impl FakeEngine {
    fn opened(&self) -> Vec<CampaignId> {
        std::mem::take(&mut *self.opened.lock().unwrap())
    }
}

impl Engine for FakeEngine {
    fn claim(&self, _: Claim) -> Ticket<Claimed> {
        Ticket::ready(Err(EngineError::Stopping))
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        let Command::Open(setup) = command else {
            return Ticket::ready(Err(EngineError::Stopping));
        };
        if *self.refused.lock().unwrap() == Some(setup.campaign.id) {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        self.opened.lock().unwrap().push(setup.campaign.id);
        Ticket::ready(Ok(Reply::Opened))
    }

    fn peek(&self, _: &Claim) -> Option<Outcome> {
        None
    }

    fn tally(&self, id: CampaignId) -> Ticket<Option<Tally>> {
        let there = *self.lost.lock().unwrap() != Some(id);
        Ticket::ready(Ok(there.then(Tally::default)))
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
async fn drafts_are_opened_and_one_that_fails_holds_up_no_other() {
    let (ledger, engine) = (FakeLedger::new(), Arc::new(FakeEngine::default()));
    let opener = DraftOpener::new(ledger.clone(), engine.clone());
    assert!(matches!(opener.open_all().await, Ok(0)));
    *ledger.drafts.lock().unwrap() = Ok((1..=3).map(|n| sale(10).setup(n)).collect());
    *engine.refused.lock().unwrap() = Some(id(2));
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(2).to_string()), "{failed}");
    assert_eq!(engine.opened(), [id(1), id(3)]);

    *engine.refused.lock().unwrap() = None;
    *engine.lost.lock().unwrap() = Some(id(1));
    let failed = opener.open_all().await.unwrap_err().to_string();
    assert!(failed.contains(&id(1).to_string()), "{failed}");
    assert_eq!(engine.opened(), [id(1), id(2), id(3)]);
    *engine.lost.lock().unwrap() = None;

    let host = Host::new("upkeep");
    let Schedule { interval, .. } = DraftOpener::SCHEDULE;
    host.start("drafts", DraftOpener::SCHEDULE, opener);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(engine.opened(), [id(1), id(2), id(3)]);
    *ledger.drafts.lock().unwrap() = Err(broken());
    sleep(interval).await;
    assert!(host.stuck().unwrap().starts_with("drafts: "));
    *ledger.drafts.lock().unwrap() = Ok(vec![sale(10).setup(4)]);
    sleep(interval).await;
    assert_eq!((engine.opened(), host.stuck()), (vec![id(4)], None));
    host.stop().await;
}
