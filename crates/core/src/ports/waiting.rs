//! The waiting room: a durable line in front of a campaign.
//!
//! It decides nothing. Who waits is put to the engine in the order of entry, and the engine's claim is idempotent: a
//! place that is put to it again, or twice at once, has the same grant.

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
    time::Timestamp,
    waiting::{Decision, Place, Standing, WaitingLimits},
};

/// The lines of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// The campaigns in whose lines somebody waits.
    pub campaigns: Vec<CampaignId>,
    /// Whether this process decides them.
    pub own: bool,
    /// Whether it does so by a lease: another process may decide them when that is over.
    pub leased: bool,
}

/// The head of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineHead {
    /// How many wait.
    pub waiting: u64,
    /// The first of them, in their order.
    pub places: Vec<Place>,
}

/// The lines of an engine's campaigns. What was answered survives what a grant of the engine at its own level
/// survives.
#[async_trait]
pub trait WaitingRoom: Send + Sync + 'static {
    /// The partitions that have lines.
    fn partitions(&self) -> Vec<PartitionId>;

    /// Takes a place at the end of a campaign's line, at this time; a user who waits already with the same claim keeps
    /// the place, and with another one is refused ([`Place::check_repeated`]). None where too many wait.
    async fn enter(
        &self,
        claim: &Claim,
        now: Timestamp,
        limits: WaitingLimits,
    ) -> Result<Option<Standing>, EngineError>;

    /// Where a user stands; none who is neither in line nor was decided lately.
    async fn standing(
        &self,
        campaign: CampaignId,
        user: &UserId,
    ) -> Result<Option<Standing>, EngineError>;

    /// The lines of a partition. From then on this process decides them, unless another one does: it was heard of
    /// within the `lease`.
    async fn lines(&self, partition: PartitionId, lease: Duration) -> Result<Lines, EngineError>;

    /// The first `limit` places of a line.
    async fn head(&self, campaign: CampaignId, limit: usize) -> Result<LineHead, EngineError>;

    /// Takes places out of a campaign's line, each with what became of it, in one atomic step. A place that is not in
    /// line any more is left as it is.
    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(Place, Decision)],
        now: Timestamp,
        limits: WaitingLimits,
    ) -> Result<(), EngineError>;
}

/// Which campaigns have a waiting room, as they were created.
#[async_trait]
pub trait WaitingRoomStore: Send + Sync + 'static {
    /// Gives a campaign a waiting room. It comes before the campaign itself, so that nobody finds it without its line.
    async fn add_waiting_room(&self, id: CampaignId) -> Result<(), LedgerError>;

    /// Whether a campaign has one.
    async fn has_waiting_room(&self, id: CampaignId) -> Result<bool, LedgerError>;
}

/// What operators observe of the lines that this process decides, and how it is told that somebody has come.
#[derive(Default)]
pub struct WaitingMonitor {
    lines: Mutex<BTreeMap<PartitionId, (u64, Option<Timestamp>)>>,
    decided: [AtomicU64; Self::DECISIONS.len()],
    leases_lost: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl WaitingMonitor {
    /// The words of decisions.
    pub const DECISIONS: [&'static str; 9] = {
        let [a, b, c, d, e, f, g, h] = Outcome::NAMES;
        [a, b, c, d, e, f, g, h, "key_reused"]
    };

    /// What to do when somebody has come. It is set once.
    pub fn on_entry(&self, wake: impl Fn() + Send + Sync + 'static) {
        // Only one process decides, and it says this once.
        let _ = self.wake.set(Box::new(wake));
    }

    /// Somebody has come.
    pub fn entered(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// How many wait in a partition, and since when the first of them does who could be decided: not of a campaign that
    /// is paused or has not started.
    pub fn show(&self, partition: PartitionId, waiting: u64, oldest: Option<Timestamp>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(partition, (waiting, oldest));
    }

    /// A place was decided.
    pub fn decided(&self, decision: &Decision) {
        let names = Self::DECISIONS.iter().zip(&self.decided);
        for (name, count) in names {
            if *name == decision.name() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The lease of a partition's lines ran out, or another process got it, while this one had it.
    pub fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// How many leases were lost.
    #[must_use]
    pub fn leases_lost(&self) -> u64 {
        self.leases_lost.load(Ordering::Relaxed)
    }

    /// How many wait in all, and since when the first of them does who could be decided.
    #[must_use]
    pub fn waiting(&self) -> (u64, Option<Timestamp>) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = lines.values().map(|(waiting, _)| waiting).sum();
        (waiting, lines.values().filter_map(|(_, at)| *at).min())
    }

    /// How many places were decided, by word.
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
