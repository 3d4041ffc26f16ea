//! Who waits on this node for campaigns that are brought back, and from where.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use qiang_core::{event::PartitionId, id::CampaignId, ports::Ledger};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Campaigns that one node brings back at a time into one partition.
const RECALLS_MAX: usize = 4;
/// Claims that wait for campaigns that are brought back, at most; further ones are turned away as overload.
const WAITING_MAX: usize = 16_384;

/// Campaigns that are being brought back by this node.
pub(crate) struct Recalls {
    /// None where nothing ever leaves.
    ledger: OnceLock<Arc<dyn Ledger>>,
    /// One a partition.
    at_a_time: Vec<Semaphore>,
    waiting: Mutex<Waiting>,
    /// Where the walk over campaigns stands that an earlier release has closed, for each partition that has them.
    enrolling: Mutex<HashMap<PartitionId, Option<Walk>>>,
}

/// Behind which campaign a walk goes on; none where it begins.
type Walk = Option<CampaignId>;

#[derive(Default)]
struct Waiting {
    claims: usize,
    /// Each with how many wait for it.
    campaigns: HashMap<CampaignId, (usize, Arc<tokio::sync::Mutex<()>>)>,
}

impl Recalls {
    pub(crate) fn new(partitions: usize) -> Self {
        let some = || Semaphore::new(RECALLS_MAX);
        Self {
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

    /// Whose turn it is to bring a campaign back.
    pub(crate) fn enter(&self, campaign: CampaignId) -> Arc<tokio::sync::Mutex<()>> {
        let mut waiting = self.waiting.lock();
        let (count, turn) = waiting.campaigns.entry(campaign).or_default();
        *count += 1;
        Arc::clone(turn)
    }

    pub(crate) fn leave(&self, campaign: CampaignId) {
        if let Entry::Occupied(mut waiting) = self.waiting.lock().campaigns.entry(campaign) {
            waiting.get_mut().0 -= 1;
            if waiting.get().0 == 0 {
                waiting.remove();
            }
        }
    }
}
