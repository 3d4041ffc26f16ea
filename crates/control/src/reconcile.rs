//! Holds the engine's rows against the ledger's all the time, some at a time, and counts where they differ.
//!
//! A walk goes through the live campaigns of each partition, in both directions, and begins again at its end: so
//! everything live is looked at, however slowly. What differs is looked at again at the next run, because claims are
//! decided meanwhile, and counts if it is still so. Nothing is repaired here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{Clock, EngineError, Ledger, SampleCursor, SampleEngine},
    reconcile::{Difference, DifferenceKind, PartitionFindings},
    time::Timestamp,
};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// Differences of one partition that are remembered, and so counted, at most.
const FOUND_MAX: usize = 10_000;
/// A process reconciles a partition for so many intervals after it was heard of last, and for so long at least.
const LEASE_INTERVALS: u32 = 3;
const LEASE_MIN: Duration = Duration::from_secs(10);

/// How much is looked at how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// Between two runs.
    pub interval: Duration,
    /// About how many rows of each partition one run looks at.
    pub rows_max: u32,
}

/// What was found in the partitions that this process reconciles.
#[derive(Debug, Default)]
pub struct ReconcileMonitor(Mutex<BTreeMap<PartitionId, Found>>);

impl ReconcileMonitor {
    /// Each of these partitions.
    #[must_use]
    pub fn findings(&self) -> Vec<PartitionFindings> {
        let of = |(partition, found): (&PartitionId, &Found)| PartitionFindings {
            partition: *partition,
            differences: found.counts(),
            withheld: found.withheld,
            ran_at: found.ran_at,
            passed_at: found.passed_at,
        };
        self.0.lock().iter().map(of).collect()
    }
}

/// What tells a difference from others.
type Name = (DifferenceKind, CampaignId, u32);

#[derive(Debug, Default)]
struct Found {
    /// Each with the walk that saw it last.
    differences: BTreeMap<Name, u64>,
    /// What the log says of already.
    logged: BTreeSet<(DifferenceKind, CampaignId)>,
    walk: u64,
    withheld: u64,
    ran_at: Option<Timestamp>,
    passed_at: Option<Timestamp>,
}

impl Found {
    fn counts(&self) -> Vec<(DifferenceKind, u64)> {
        let count = |kind: DifferenceKind| {
            let names = self.differences.keys();
            (kind, names.filter(|name| name.0 == kind).count() as u64)
        };
        DifferenceKind::FAULTS.map(count).to_vec()
    }

    fn note(&mut self, partition: PartitionId, difference: &Difference) {
        let name = (difference.kind, difference.campaign, difference.number);
        if self.differences.len() < FOUND_MAX || self.differences.contains_key(&name) {
            self.differences.insert(name, self.walk);
        }
        if self.logged.insert((difference.kind, difference.campaign)) {
            tracing::error!(
                partition = partition.0,
                %difference,
                "engine and ledger differ: further ones of this kind and campaign are only counted"
            );
        }
    }

    /// A walk has ended: what it has not seen is not there any more.
    fn end_walk(&mut self, now: Timestamp) {
        let walk = self.walk;
        self.differences.retain(|_, seen| *seen == walk);
        let left = &self.differences;
        self.logged
            .retain(|known| left.keys().any(|name| (name.0, name.1) == *known));
        self.walk += 1;
        // Where nothing is live, no rows were compared, and this is when they would have been.
        (self.ran_at, self.passed_at) = (Some(now), Some(now));
    }
}

/// A walk through a partition.
#[derive(Debug, Default)]
struct Walk {
    /// The campaigns to come, the next one last.
    campaigns: Vec<CampaignId>,
    /// The present one, and where in it.
    here: Option<(CampaignId, SampleCursor)>,
    /// What differed there when it was looked at first.
    suspected: Option<BTreeSet<Difference>>,
    /// Whether campaigns were listed for this walk.
    begun: bool,
    /// Whether all of them could be read so far.
    is_whole: bool,
}

/// Reconciles an engine with a ledger.
pub struct Reconciliation {
    engine: Arc<dyn SampleEngine>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    options: ReconcileOptions,
    monitor: Arc<ReconcileMonitor>,
    walks: BTreeMap<PartitionId, Walk>,
}

impl Reconciliation {
    /// Holds this engine against this ledger. What it finds is shown by the monitor.
    #[must_use]
    pub fn new(
        engine: Arc<dyn SampleEngine>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        options: ReconcileOptions,
        monitor: Arc<ReconcileMonitor>,
    ) -> Self {
        Self {
            engine,
            ledger,
            clock,
            options,
            monitor,
            walks: BTreeMap::new(),
        }
    }

    /// When it runs.
    #[must_use]
    pub fn schedule(options: ReconcileOptions) -> Schedule {
        Schedule::every(options.interval)
    }

    /// Counts the units of a partition that repairs have withheld and that are not released.
    async fn count_withheld(&self, partition: PartitionId) -> Result<(), EngineError> {
        let records = self.ledger.withheld(partition).await;
        let records = records.map_err(|error| EngineError::unavailable(error.to_string()))?;
        let standing = records.iter().filter(|it| it.released_at.is_none());
        let units = standing.map(|it| it.units).sum();
        let mut found = self.monitor.0.lock();
        found.entry(partition).or_default().withheld = units;
        Ok(())
    }

    /// One step of the walk through a partition, if this process is the one that makes it.
    async fn step(&mut self, partition: PartitionId) -> Result<(), EngineError> {
        let lease = (self.options.interval * LEASE_INTERVALS).max(LEASE_MIN);
        if !self.engine.leads_sampling(partition, lease).await? {
            self.walks.remove(&partition);
            self.monitor.0.lock().remove(&partition);
            return Ok(());
        }
        let counted = self.count_withheld(partition).await;
        self.walk(partition).await.and(counted)
    }

    /// One step of the walk.
    async fn walk(&mut self, partition: PartitionId) -> Result<(), EngineError> {
        let walk = self.walks.entry(partition).or_default();
        if !walk.begun {
            let live = self.engine.live_campaigns(partition, &*self.ledger).await?;
            walk.campaigns = live.into_iter().rev().collect();
            (walk.begun, walk.is_whole) = (true, true);
        }
        if walk.here.is_none() {
            walk.here = walk.campaigns.pop().map(|it| (it, SampleCursor::default()));
        }
        if let Some((campaign, cursor)) = walk.here.clone() {
            let rows_max = self.options.rows_max;
            let sample = self
                .engine
                .sample(partition, campaign, &*self.ledger, &cursor, rows_max);
            let sample = match sample.await {
                Ok(Some(sample)) => sample,
                Ok(None) => return Ok(()),
                Err(error) => {
                    // What cannot be read holds up no other campaign.
                    (walk.here, walk.suspected) = (None, None);
                    walk.is_whole = false;
                    return Err(error);
                }
            };
            let is_fault = |it: &Difference| it.kind != DifferenceKind::InFlight;
            let seen: BTreeSet<_> = sample.differences.into_iter().filter(is_fault).collect();
            let mut found = self.monitor.0.lock();
            let found = found.entry(partition).or_default();
            found.ran_at = Some(self.clock.now());
            match walk.suspected.take() {
                None if !seen.is_empty() => {
                    walk.suspected = Some(seen);
                    return Ok(());
                }
                None => {}
                Some(suspected) => {
                    for difference in suspected.intersection(&seen) {
                        found.note(partition, difference);
                    }
                }
            }
            walk.here = sample.next.map(|next| (campaign, next));
        }
        if walk.here.is_none() && walk.campaigns.is_empty() {
            walk.begun = false;
            if walk.is_whole {
                let now = self.clock.now();
                let mut found = self.monitor.0.lock();
                found.entry(partition).or_default().end_walk(now);
            }
        }
        Ok(())
    }
}

impl Reconciler for Reconciliation {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let mut failed = None;
        for partition in self.engine.partitions() {
            // One that does not answer holds up no other.
            if let Err(error) = self.step(partition).await {
                let reason = || format!("partition {}: {error}", partition.0);
                failed.get_or_insert_with(reason);
            }
        }
        match failed {
            Some(reason) => Err(Stuck(reason)),
            None => Ok(Next::Wait),
        }
    }
}
