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
    ports::{Claimed, Engine, EngineError, PendingReply, ProbeResult, ReplySender},
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
    unanswered: Mutex<Vec<ReplySender<Reply>>>,
}

impl FakeEngine {
    /// Campaigns that were opened or closed since the last call.
    pub(crate) fn done(&self) -> Vec<CampaignId> {
        std::mem::take(&mut *self.done.lock().unwrap())
    }
}

impl Engine for FakeEngine {
    fn claim(&self, _: Claim) -> PendingReply<Claimed> {
        PendingReply::ready(Err(EngineError::Stopping))
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        let (campaign, reply) = match command {
            Command::Open(setup) => (setup.campaign.id, Reply::Opened),
            Command::Act {
                campaign,
                action: CampaignAction::Close,
            } => (campaign, Reply::Acted(Tally::default())),
            _ => return PendingReply::ready(Err(EngineError::Stopping)),
        };
        if self.refused.lock().unwrap().contains(&campaign) {
            return PendingReply::ready(Err(EngineError::Overloaded));
        }
        if *self.hangs.lock().unwrap() == Some(campaign) {
            let (answer, ticket) = PendingReply::new();
            self.unanswered.lock().unwrap().push(answer);
            return ticket;
        }
        self.done.lock().unwrap().push(campaign);
        if matches!(reply, Reply::Opened) {
            self.there.lock().unwrap().insert(campaign);
        }
        PendingReply::ready(Ok(reply))
    }

    fn try_gate_outcome(&self, _: &Claim) -> Option<Outcome> {
        None
    }

    fn tally(&self, id: CampaignId) -> PendingReply<Option<Tally>> {
        self.tallies.fetch_add(1, Ordering::Relaxed);
        if self.doubtful.lock().unwrap().contains(&id) {
            return PendingReply::ready(Err(EngineError::unavailable("a planted failure")));
        }
        let is_lost = *self.lost.lock().unwrap() == Some(id);
        let there = !is_lost && self.there.lock().unwrap().contains(&id);
        PendingReply::ready(Ok(there.then(Tally::default)))
    }

    fn order(&self, _: OrderId) -> PendingReply<Option<OrderView>> {
        PendingReply::ready(Ok(None))
    }

    fn probe(&self, _: PartitionId) -> PendingReply<ProbeResult> {
        PendingReply::ready(Ok(ProbeResult::Ready))
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[]
    }
}
