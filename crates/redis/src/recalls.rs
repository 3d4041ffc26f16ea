//! Who waits on this node for campaigns that are brought back, and from where.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{EngineError, Ledger},
};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};

/// Campaigns that one node brings back at a time into one partition.
const RECALLS_MAX: usize = 4;
/// Claims that wait for campaigns that are brought back, at most; further ones are turned away as overload.
const WAITING_MAX: usize = 16_384;

/// Campaigns that are being brought back or looked for, at most.
const CAMPAIGNS_MAX: usize = 16_384;

/// What has come of bringing a campaign back, once it is known: whether it is there.
type Outcome = Option<Result<bool, EngineError>>;

/// Campaigns that are being brought back by this node.
pub(crate) struct Recalls {
    /// None where nothing ever leaves.
    ledger: OnceLock<Arc<dyn Ledger>>,
    /// One a partition.
    at_a_time: Vec<Semaphore>,
    /// To those who bring them back.
    asked: mpsc::UnboundedSender<CampaignId>,
    to_do: Mutex<Option<mpsc::UnboundedReceiver<CampaignId>>>,
    waiting: Mutex<Waiting>,
    /// Where the walk over campaigns stands that an earlier release has closed, for each partition that has them.
    enrolling: Mutex<HashMap<PartitionId, Option<Walk>>>,
}

/// Behind which campaign a walk goes on; none where it begins.
type Walk = Option<CampaignId>;

#[derive(Default)]
struct Waiting {
    claims: usize,
    /// Each with where those look who wait for it.
    campaigns: HashMap<CampaignId, watch::Sender<Outcome>>,
}

impl Recalls {
    pub(crate) fn new(partitions: usize) -> Self {
        let some = || Semaphore::new(RECALLS_MAX);
        let (asked, to_do) = mpsc::unbounded_channel();
        Self {
            asked,
            to_do: Mutex::new(Some(to_do)),
            ledger: OnceLock::new(),
            at_a_time: std::iter::repeat_with(some).take(partitions).collect(),
            waiting: Mutex::default(),
            enrolling: Mutex::default(),
        }
    }

    /// Waits until not too many campaigns of this home are being brought back.
    pub(crate) async fn permit(&self, home: PartitionId) -> Option<SemaphorePermit<'_>> {
        self.at_a_time[usize::from(home.0)].acquire().await.ok()
    }

    /// Says where campaigns are that have left. Only the first ledger counts.
    pub(crate) fn read_from(&self, ledger: Arc<dyn Ledger>) {
        drop(self.ledger.set(ledger));
    }

    pub(crate) fn ledger(&self) -> Option<&Arc<dyn Ledger>> {
        self.ledger.get()
    }

    /// Where the walk through a partition goes on; none at its end.
    pub(crate) fn enrolling(&self, partition: PartitionId) -> Option<Walk> {
        *self.enrolling.lock().entry(partition).or_insert(Some(None))
    }

    pub(crate) fn enrolled(&self, partition: PartitionId, next: Option<Walk>) {
        self.enrolling.lock().insert(partition, next);
    }

    /// Counts claims that wait; false where too many do.
    pub(crate) fn enter_claims(&self, count: usize) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.claims + count <= WAITING_MAX;
        waiting.claims += if has_room { count } else { 0 };
        has_room
    }

    pub(crate) fn leave_claims(&self, count: usize) {
        self.waiting.lock().claims -= count;
    }

    /// What comes of bringing a campaign back, and whether that begins with this call, and not before. None where too
    /// many are being brought back.
    pub(crate) fn join(&self, campaign: CampaignId) -> Option<(watch::Receiver<Outcome>, bool)> {
        let mut waiting = self.waiting.lock();
        let campaigns = &mut waiting.campaigns;
        if let Some(outcome) = campaigns.get(&campaign) {
            return Some((outcome.subscribe(), false));
        }
        if campaigns.len() >= CAMPAIGNS_MAX || self.asked.send(campaign).is_err() {
            return None;
        }
        let (outcome, waits) = watch::channel(None);
        campaigns.insert(campaign, outcome);
        Some((waits, true))
    }

    /// The campaigns that are to be brought back, for the one who does it.
    pub(crate) fn take_asked(&self) -> Option<mpsc::UnboundedReceiver<CampaignId>> {
        self.to_do.lock().take()
    }

    /// Tells all who wait for a campaign what has come of it.
    pub(crate) fn done(&self, campaign: CampaignId, recalled: Result<bool, EngineError>) {
        let outcome = self.waiting.lock().campaigns.remove(&campaign);
        if let Some(outcome) = outcome {
            outcome.send_replace(Some(recalled));
        }
    }
}

#[cfg(test)]
mod tests {
    use qiang_testkit::campaign::id;

    use super::*;

    #[test]
    fn a_campaign_is_brought_back_for_all_who_wait() {
        let recalls = Recalls::new(1);
        let mut asked = recalls.take_asked().unwrap();
        let waits = [1, 1, 2].map(|n| recalls.join(id(n)).unwrap());
        assert_eq!(
            waits.each_ref().map(|(_, begins)| *begins),
            [true, false, true]
        );
        for n in [1, 2] {
            assert_eq!(asked.try_recv(), Ok(id(n)));
        }
        assert!(asked.try_recv().is_err());
        recalls.done(id(1), Ok(true));
        let outcomes = waits
            .each_ref()
            .map(|(outcome, _)| outcome.borrow().clone());
        assert_eq!(outcomes, [Some(Ok(true)), Some(Ok(true)), None]);
        assert!(recalls.join(id(1)).unwrap().1, "it may have left again");
        drop(asked);
        assert!(recalls.join(id(3)).is_none(), "nobody does it");
    }
}
