//! Queue: a durable, ordered wait before a campaign.
//!
//! The queue decides nothing. Its entries are submitted to the engine in order. The engine's claim is idempotent: an
//! entry that is submitted again, or twice at once, gets the same grant.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use super::{EngineError, LedgerError};
use crate::{
    book::Claim,
    event::PartitionId,
    id::{CampaignId, UserId},
    outcome::Outcome,
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
    time::Timestamp,
};

/// The queues of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveQueues {
    /// Campaigns with waiting queue entries.
    pub campaigns: Vec<CampaignId>,
    /// Whether this process submits their entries.
    pub own: bool,
    /// Whether it does so under a lease. Another process may take over after the lease ends.
    pub leased: bool,
}

/// The head of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueHead {
    /// Number of waiting entries.
    pub waiting: u64,
    /// The first of them, in order.
    pub places: Vec<QueueEntry>,
}

/// The queues of an engine's campaigns. An answered change survives the same failures as a grant at the engine's own
/// level.
#[async_trait]
pub trait WaitingRoom: Send + Sync + 'static {
    /// The partitions that have queues.
    fn partitions(&self) -> Vec<PartitionId>;

    /// Adds an entry at the end of a campaign's queue, at this time. If the user already waits with the same claim, the
    /// entry stays; with another claim, it is refused ([`Place::check_repeated`]). Returns `None` if the queue is full.
    async fn enter(
        &self,
        claim: &Claim,
        now: Timestamp,
        limits: QueueLimits,
    ) -> Result<Option<QueueStatus>, EngineError>;

    /// Queue status of a user; `None` if the user neither waits nor was decided recently.
    async fn standing(
        &self,
        campaign: CampaignId,
        user: &UserId,
    ) -> Result<Option<QueueStatus>, EngineError>;

    /// The queues of a partition. From then on this process submits their entries, unless another process did so within
    /// the `lease`.
    async fn lines(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<ActiveQueues, EngineError>;

    /// The first `limit` entries of a queue.
    async fn head(&self, campaign: CampaignId, limit: usize) -> Result<QueueHead, EngineError>;

    /// Removes entries from a campaign's queue and records their results, in one atomic step. An entry that is no
    /// longer in the queue does not change.
    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(QueueEntry, QueueDecision)],
        now: Timestamp,
        limits: QueueLimits,
    ) -> Result<(), EngineError>;

    /// Number of calls of this process that found a queue damaged, and have rebuilt it. 0 for an engine that has its
    /// queues in a file.
    fn rebuilt(&self) -> u64;
}

/// Store of the campaigns that have a queue, recorded at their creation.
#[async_trait]
pub trait WaitingRoomStore: Send + Sync + 'static {
    /// Gives a campaign a queue. It precedes the creation of the campaign, so that no claim bypasses the queue.
    async fn add_waiting_room(&self, id: CampaignId) -> Result<(), LedgerError>;

    /// Whether a campaign has a queue.
    async fn has_waiting_room(&self, id: CampaignId) -> Result<bool, LedgerError>;
}

/// Metrics of the queues that this process submits, and the hook that reports new entries.
#[derive(Default)]
pub struct WaitingMonitor {
    lines: Mutex<BTreeMap<PartitionId, (u64, Option<Timestamp>)>>,
    decided: [AtomicU64; Self::DECISIONS.len()],
    leases_lost: AtomicU64,
    rebuilt: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl WaitingMonitor {
    /// Names of decisions.
    pub const DECISIONS: [&'static str; 9] = {
        let [a, b, c, d, e, f, g, h] = Outcome::NAMES;
        [a, b, c, d, e, f, g, h, "key_reused"]
    };

    /// Sets the function that runs after each new entry. Only the first call has an effect.
    pub fn on_entry(&self, wake: impl Fn() + Send + Sync + 'static) {
        // Only one task of a process submits entries, and it sets the hook once.
        let _ = self.wake.set(Box::new(wake));
    }

    /// Runs the hook after a new entry.
    pub fn entered(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Sets the number of waiting entries of a partition, and the time of the oldest one that could be decided. Entries
    /// of a campaign that is paused or has not started cannot.
    pub fn show(&self, partition: PartitionId, waiting: u64, oldest: Option<Timestamp>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(partition, (waiting, oldest));
    }

    /// Counts a decided entry.
    pub fn decided(&self, decision: &QueueDecision) {
        let names = Self::DECISIONS.iter().zip(&self.decided);
        for (name, count) in names {
            if *name == decision.name() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a lost lease: it expired, or another process got it, while this process held it.
    pub fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of lost leases.
    #[must_use]
    pub fn leases_lost(&self) -> u64 {
        self.leases_lost.load(Ordering::Relaxed)
    }

    /// Sets the [number of rebuilt queues](WaitingRoom::rebuilt).
    pub fn show_rebuilt(&self, calls: u64) {
        self.rebuilt.fetch_max(calls, Ordering::Relaxed);
    }

    /// The [number of rebuilt queues](WaitingRoom::rebuilt).
    #[must_use]
    pub fn rebuilt(&self) -> u64 {
        self.rebuilt.load(Ordering::Relaxed)
    }

    /// Total of waiting entries, and the time of the oldest one that could be decided.
    #[must_use]
    pub fn waiting(&self) -> (u64, Option<Timestamp>) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = lines.values().map(|(waiting, _)| waiting).sum();
        (waiting, lines.values().filter_map(|(_, at)| *at).min())
    }

    /// Numbers of decided entries, by name of the decision.
    pub fn decisions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.decided.iter().map(|it| it.load(Ordering::Relaxed));
        Self::DECISIONS.into_iter().zip(counts)
    }
}

impl fmt::Debug for WaitingMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitingMonitor")
            .field(&self.waiting())
            .finish()
    }
}
