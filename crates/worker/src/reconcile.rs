//! Compares the engine's rows with the ledger's continuously, in small steps, and counts differences.
//!
//! A walk visits the live campaigns of each partition, compares in both directions, and restarts at its end. So every
//! live campaign is visited at some time. Claims are decided during a comparison, so the next run compares a difference
//! again, and it counts only if it persists. The facts of a campaign, such as its stock, are compared before its rows.
//! A campaign that cannot be compared is logged and skipped. Nothing is repaired here.

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
    reconcile::{
        CampaignComparison, CampaignDifference, Difference, DifferenceKind, NotCompared,
        PartitionFindings,
    },
    time::Timestamp,
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Maximum differences of one partition that are remembered, and so counted.
const FOUND_MAX: usize = 10_000;
/// Maximum runs that compare the facts of one campaign: it may change, or its entries may not be settled.
const FACTS_RUNS_MAX: u32 = 10;
/// Number of intervals, after its last renewal, for which a process keeps the lease of a partition.
const LEASE_INTERVALS: u32 = 3;
/// Minimum duration of that lease.
const LEASE_MIN: Duration = Duration::from_secs(10);

/// Amount and interval of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconcileOptions {
    /// Pause between two runs.
    pub interval: Duration,
    /// Approximate rows of each partition that one run compares.
    pub rows_max: u32,
}

/// Findings of the partitions that this process reconciles.
#[derive(Debug, Default)]
pub struct ReconcileMonitor(Mutex<BTreeMap<PartitionId, WalkResult>>);

impl ReconcileMonitor {
    /// Findings of each of these partitions.
    #[must_use]
    pub fn findings(&self) -> Vec<PartitionFindings> {
        let of = |(partition, found): (&PartitionId, &WalkResult)| PartitionFindings {
            partition: *partition,
            differences: found.counts(),
            withheld: found.withheld,
            out_of_service: found.out_of_service,
            ran_at: found.ran_at,
            passed_at: found.passed_at,
        };
        self.0.lock().iter().map(of).collect()
    }
}

/// Identity of a difference: kind, campaign and number.
type Name = (DifferenceKind, CampaignId, u32);

#[derive(Debug, Default)]
struct WalkResult {
    /// Differences, with the last walk that saw each.
    differences: BTreeMap<Name, u64>,
    /// Differences that are already logged.
    logged: BTreeSet<(DifferenceKind, CampaignId)>,
    /// Campaigns whose failed comparison is already logged.
    logged_not_compared: BTreeSet<CampaignId>,
    walk: u64,
    withheld: u64,
    out_of_service: u64,
    ran_at: Option<Timestamp>,
    passed_at: Option<Timestamp>,
}

impl WalkResult {
    fn counts(&self) -> Vec<(DifferenceKind, u64)> {
        let count = |kind: DifferenceKind| {
            let names = self.differences.keys();
            (kind, names.filter(|name| name.0 == kind).count() as u64)
        };
        DifferenceKind::FAULTS.map(count).to_vec()
    }

    fn count(&mut self, name: Name) -> bool {
        if self.differences.len() < FOUND_MAX || self.differences.contains_key(&name) {
            self.differences.insert(name, self.walk);
        }
        self.logged.insert((name.0, name.1))
    }

    fn note_campaign(&mut self, partition: PartitionId, difference: &CampaignDifference) {
        if self.count((difference.kind, difference.campaign, 0)) {
            tracing::error!(
                partition = partition.0,
                %difference,
                "engine and ledger differ about a campaign: run qiang reconcile"
            );
        }
    }

    fn note_not_compared(
        &mut self,
        partition: PartitionId,
        campaign: CampaignId,
        reason: &NotCompared,
    ) {
        if self.logged_not_compared.insert(campaign) {
            tracing::error!(
                partition = partition.0,
                %campaign,
                %reason,
                "a campaign is not compared with the ledger"
            );
        }
    }

    fn note(&mut self, partition: PartitionId, difference: &Difference) {
        if self.count((difference.kind, difference.campaign, difference.number)) {
            tracing::error!(
                partition = partition.0,
                %difference,
                "engine and ledger differ: further ones of this kind and campaign are only counted"
            );
        }
    }

    /// Ends a walk: drops differences that it has not seen, except those of campaigns that it could not compare.
    fn end_walk(&mut self, now: Timestamp, ended: &Walk) {
        let walk = self.walk;
        let not_compared = &ended.not_compared;
        self.differences
            .retain(|name, seen| *seen == walk || not_compared.contains(&name.1));
        self.logged_not_compared
            .retain(|campaign| not_compared.contains(campaign));
        let left = &self.differences;
        self.logged
            .retain(|known| left.keys().any(|name| (name.0, name.1) == *known));
        self.walk += 1;
        if not_compared.is_empty() {
            self.passed_at = Some(now);
        }
    }
}

/// Walk through the live campaigns of a partition.
#[derive(Debug, Default)]
struct Walk {
    /// Campaigns still to visit, the next one last.
    campaigns: Vec<CampaignId>,
    /// Current campaign, and the position in its rows; `None` before its facts are compared.
    here: Option<(CampaignId, Option<SampleCursor>)>,
    /// Facts of the campaign that differed at the first comparison.
    suspected_facts: Option<BTreeSet<CampaignDifference>>,
    /// Runs that have compared its facts.
    facts_runs: u32,
    /// Rows that differed at the first comparison.
    suspected: Option<BTreeSet<Difference>>,
    /// Whether the campaigns of this walk are listed.
    begun: bool,
    /// Campaigns that could not be compared, or only in part.
    not_compared: BTreeSet<CampaignId>,
}

impl Walk {
    /// Skips the current campaign.
    fn skip(&mut self) {
        if let Some((campaign, _)) = self.here.take() {
            self.not_compared.insert(campaign);
        }
        (self.suspected, self.suspected_facts, self.facts_runs) = (None, None, 0);
    }
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
    /// Creates a comparison of this engine with this ledger. The monitor shows its findings.
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

    /// Schedule of its runs.
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

    /// Counts the campaigns of a partition that are out of service.
    async fn count_out_of_service(&self, partition: PartitionId) -> Result<(), EngineError> {
        let count = self.engine.count_out_of_service(partition).await?;
        let mut found = self.monitor.0.lock();
        found.entry(partition).or_default().out_of_service = count;
        Ok(())
    }

    /// Performs one step of the walk through a partition, if this process has the lease.
    async fn step(&mut self, partition: PartitionId) -> Result<(), EngineError> {
        let lease = (self.options.interval * LEASE_INTERVALS).max(LEASE_MIN);
        if !self.engine.leads_sampling(partition, lease).await? {
            self.walks.remove(&partition);
            self.monitor.0.lock().remove(&partition);
            return Ok(());
        }
        let counted = self.count_withheld(partition).await;
        let counted = counted.and(self.count_out_of_service(partition).await);
        self.walk(partition).await.and(counted)
    }

    /// Compares the facts of the current campaign, unless that is done. Returns whether its rows are next.
    async fn compare_facts(&mut self, partition: PartitionId) -> Result<bool, EngineError> {
        let walk = self.walks.entry(partition).or_default();
        let Some((campaign, None)) = walk.here.clone() else {
            return Ok(true);
        };
        let compared = self
            .engine
            .compare_campaign(partition, campaign, &*self.ledger);
        let compared = match compared.await {
            Ok(compared) => compared,
            Err(error) => {
                walk.skip();
                return Err(error);
            }
        };
        let mut found = self.monitor.0.lock();
        let found = found.entry(partition).or_default();
        walk.facts_runs += 1;
        match compared {
            CampaignComparison::Absent => {}
            CampaignComparison::Compared(compared) => {
                found.ran_at = Some(self.clock.now());
                let seen: BTreeSet<_> = compared.differences().into_iter().collect();
                match walk.suspected_facts.take() {
                    None if !seen.is_empty() => {
                        walk.suspected_facts = Some(seen);
                        return Ok(false);
                    }
                    None => {}
                    Some(suspected) => {
                        for difference in suspected.intersection(&seen) {
                            found.note_campaign(partition, difference);
                        }
                    }
                }
            }
            CampaignComparison::NotCompared(NotCompared::NotOpen)
            | CampaignComparison::Unsettled(NotCompared::NotOpen) => {
                walk.facts_runs = 0;
                return Ok(false);
            }
            CampaignComparison::NotCompared(NotCompared::UnreadableElsewhere(_)) => {
                (walk.here, walk.facts_runs) = (None, 0);
                walk.suspected_facts = None;
                return Ok(true);
            }
            CampaignComparison::NotCompared(reason) => {
                found.note_not_compared(partition, campaign, &reason);
                walk.not_compared.insert(campaign);
                if reason.is_unreadable() {
                    walk.skip();
                    return Ok(true);
                }
            }
            // The comparison of its rows reports each one.
            CampaignComparison::Unsettled(NotCompared::NotInEngine) => {}
            CampaignComparison::Unsettled(_) if walk.facts_runs < FACTS_RUNS_MAX => {
                return Ok(false);
            }
            CampaignComparison::Unsettled(reason) => {
                found.note_not_compared(partition, campaign, &reason);
                walk.not_compared.insert(campaign);
            }
        }
        (walk.suspected_facts, walk.facts_runs) = (None, 0);
        walk.here = Some((campaign, Some(SampleCursor::default())));
        Ok(true)
    }

    /// Performs one step of the walk.
    async fn walk(&mut self, partition: PartitionId) -> Result<(), EngineError> {
        let walk = self.walks.entry(partition).or_default();
        if !walk.begun {
            let live = self.engine.live_campaigns(partition, &*self.ledger).await?;
            walk.campaigns = live.into_iter().rev().collect();
            walk.begun = true;
            walk.not_compared.clear();
        }
        if walk.here.is_none() {
            walk.here = walk.campaigns.pop().map(|it| (it, None));
        }
        if !self.compare_facts(partition).await? {
            return Ok(());
        }
        let walk = self.walks.entry(partition).or_default();
        if let Some((campaign, Some(cursor))) = walk.here.clone() {
            let rows_max = self.options.rows_max;
            let sample = self
                .engine
                .sample(partition, campaign, &*self.ledger, &cursor, rows_max);
            let sample = match sample.await {
                Ok(Some(sample)) => sample,
                Ok(None) => return Ok(()),
                Err(error) => {
                    // An unreadable campaign delays no other.
                    walk.skip();
                    return Err(error);
                }
            };
            let is_fault = |it: &Difference| it.kind != DifferenceKind::InFlight;
            let seen: BTreeSet<_> = sample.differences.into_iter().filter(is_fault).collect();
            let mut found = self.monitor.0.lock();
            let found = found.entry(partition).or_default();
            if sample.rows > 0 {
                found.ran_at = Some(self.clock.now());
            }
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
            walk.here = sample.next.map(|next| (campaign, Some(next)));
        }
        if walk.here.is_none() && walk.campaigns.is_empty() {
            walk.begun = false;
            let now = self.clock.now();
            let mut found = self.monitor.0.lock();
            found.entry(partition).or_default().end_walk(now, walk);
        }
        Ok(())
    }
}

impl Reconciler for Reconciliation {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let mut failed = None;
        for partition in self.engine.partitions() {
            // A partition that does not answer delays no other.
            if let Err(error) = self.step(partition).await {
                let reason = || format!("partition {}: {error}", partition.0);
                failed.get_or_insert_with(reason);
            }
        }
        match failed {
            Some(reason) => Err(ReconcileError(reason)),
            None => Ok(NextRun::Wait),
        }
    }
}
