//! An engine that opens and closes campaigns as it is told, and decides nothing.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use qiang_core::{
    book::{CampaignAction, Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Answer, Claimed, Engine, EngineError, Probed, Ticket},
};

#[derive(Default)]
pub(crate) struct FakeEngine {
    done: Mutex<Vec<CampaignId>>,
    /// What is neither opened nor closed.
    pub(crate) refused: Mutex<Vec<CampaignId>>,
    /// What is opened and not there.
    pub(crate) lost: Mutex<Option<CampaignId>>,
    /// What is there.
    pub(crate) there: Mutex<BTreeSet<CampaignId>>,
    /// What it is asked about that it does not know at once.
    pub(crate) tallies: AtomicUsize,
    /// What it says nothing of.
    pub(crate) doubtful: Mutex<Vec<CampaignId>>,
    /// What never comes to an end.
    pub(crate) hangs: Mutex<Option<CampaignId>>,
    unanswered: Mutex<Vec<Answer<Reply>>>,
}

impl FakeEngine {
    /// What was opened or closed since this was asked last.
    pub(crate) fn done(&self) -> Vec<CampaignId> {
        std::mem::take(&mut *self.done.lock().unwrap())
    }
}

impl Engine for FakeEngine {
    fn claim(&self, _: Claim) -> Ticket<Claimed> {
        Ticket::ready(Err(EngineError::Stopping))
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        let (campaign, reply) = match command {
            Command::Open(setup) => (setup.campaign.id, Reply::Opened),
            Command::Act {
                campaign,
                action: CampaignAction::Close,
            } => (campaign, Reply::Acted(Tally::default())),
            _ => return Ticket::ready(Err(EngineError::Stopping)),
        };
        if self.refused.lock().unwrap().contains(&campaign) {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        if *self.hangs.lock().unwrap() == Some(campaign) {
            let (answer, ticket) = Ticket::new();
            self.unanswered.lock().unwrap().push(answer);
            return ticket;
        }
        self.done.lock().unwrap().push(campaign);
        if matches!(reply, Reply::Opened) {
            self.there.lock().unwrap().insert(campaign);
        }
        Ticket::ready(Ok(reply))
    }

    fn peek(&self, _: &Claim) -> Option<Outcome> {
        None
    }

    fn tally(&self, id: CampaignId) -> Ticket<Option<Tally>> {
        self.tallies.fetch_add(1, Ordering::Relaxed);
        if self.doubtful.lock().unwrap().contains(&id) {
            return Ticket::ready(Err(EngineError::unavailable("it was told to fail")));
        }
        let is_lost = *self.lost.lock().unwrap() == Some(id);
        let there = !is_lost && self.there.lock().unwrap().contains(&id);
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
