//! A scripted engine that opens and closes campaigns, and decides no claims.

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
    /// Campaigns that it refuses to open or close.
    pub(crate) refused: Mutex<Vec<CampaignId>>,
    /// Campaign that it reports as opened, but does not have.
    pub(crate) lost: Mutex<Option<CampaignId>>,
    /// Campaigns that it has.
    pub(crate) there: Mutex<BTreeSet<CampaignId>>,
    /// Number of tally requests, except for campaigns that it knows as opened.
    pub(crate) tallies: AtomicUsize,
    /// Campaigns for which a tally fails.
    pub(crate) doubtful: Mutex<Vec<CampaignId>>,
    /// Campaign that it never answers for.
    pub(crate) hangs: Mutex<Option<CampaignId>>,
    unanswered: Mutex<Vec<Answer<Reply>>>,
}

impl FakeEngine {
    /// Campaigns that were opened or closed since the last call.
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
            return Ticket::ready(Err(EngineError::unavailable("a planted failure")));
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
