//! Settlement as one node observes it: the ends of log and ledger, stalled partitions, and the number of quarantined
//! entries. Any process may settle.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError, QuarantineCount},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two reads of heads and positions.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time that a look waits for logs, and then for the ledger. Later answers count at the next look.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Interval between two counts of quarantined entries.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Minimum interval between two reports of ledger positions.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// Time without progress after which a partition with unsettled entries counts as stalled. Entries that replicas lack
/// count too.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// Last observed state of settlement.
#[derive(Debug, Default)]
pub struct SettlementMonitor {
    /// Sums over all partitions.
    lag: AtomicU64,
    settled: AtomicU64,
    ends: Mutex<BTreeMap<PartitionId, LogEnds>>,
    quarantine: Mutex<Vec<(PartitionId, QuarantineCount)>>,
    stalled: Mutex<BTreeMap<PartitionId, String>>,
}

/// Callback that receives the ledger's positions about once per second, after they are read.
pub type OnPositions = Box<dyn Fn(&[(PartitionId, Seq)]) + Send + Sync>;

/// Last entry of a partition's log, and last entry that the ledger has.
#[derive(Debug, Clone, Copy, Default)]
struct LogEnds {
    head: Seq,
    settled: Seq,
}

impl LogEnds {
    fn lag(self) -> u64 {
        self.head.saturating_sub(self.settled)
    }
}

impl SettlementMonitor {
    /// Schedule of its runs. It does not slow down on failures, because the lag grows while ledger or log do not
    /// answer.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Entries that are in the ledger, over all partitions.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Entries that are not in the ledger, over all partitions.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    /// Entries of a partition that are not in the ledger.
    #[must_use]
    pub fn lag_of(&self, partition: PartitionId) -> u64 {
        self.ends
            .lock()
            .get(&partition)
            .map_or(0, |ends| ends.lag())
    }

    /// Whether a partition must wait for the ledger. That is so if all partitions together have `lag_entries_max`
    /// unsettled entries, and this one has at least its equal share of them. A partition without such a lag continues.
    #[must_use]
    pub fn is_behind(&self, partition: PartitionId, lag_entries_max: u64) -> bool {
        if self.lag() < lag_entries_max {
            return false;
        }
        let ends = self.ends.lock();
        let share = lag_entries_max / ends.len().max(1) as u64;
        ends.get(&partition)
            .is_some_and(|ends| ends.lag() >= share.max(1))
    }

    /// Number of quarantined entries, per partition.
    #[must_use]
    pub fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        self.quarantine.lock().clone()
    }

    /// Description of a stalled partition, if there is one.
    #[must_use]
    pub fn stalled(&self) -> Option<String> {
        self.stalled.lock().values().next().cloned()
    }

    /// Description of the stall of this partition, if it is stalled.
    #[must_use]
    pub fn stalled_in(&self, partition: PartitionId) -> Option<String> {
        self.stalled.lock().get(&partition).cloned()
    }

    /// Reconciler that keeps this monitor up to date. `positions` are those of the ledger at the start. Until heads and
    /// positions are read, earlier entries count as settled.
    pub fn reconciler(
        self: &Arc<Self>,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
        positions: &[(PartitionId, Seq)],
        on_positions: OnPositions,
    ) -> impl Reconciler {
        let partitions = log.partitions();
        let positions: BTreeMap<PartitionId, Seq> = positions.iter().copied().collect();
        let ends = partitions.iter().map(|partition| {
            let settled = positions.get(partition).copied().unwrap_or(0);
            let head = settled;
            (*partition, LogEnds { head, settled })
        });
        *self.ends.lock() = ends.collect();
        self.show(&BTreeMap::new(), &BTreeMap::new());
        MonitorReading {
            monitor: Arc::clone(self),
            heads: partitions
                .into_iter()
                .map(|it| (it, PendingQuery::default()))
                .collect(),
            positions: PendingQuery::default(),
            counts: PendingQuery::default(),
            log,
            ledger,
            counted: None,
            stalls: Stalls::starting_at(&positions, Instant::now()),
            on_positions,
            said: None,
        }
    }

    /// Updates the known ends. A partition whose log or position is not known keeps its last values.
    fn show(&self, heads: &BTreeMap<PartitionId, Seq>, positions: &BTreeMap<PartitionId, Seq>) {
        let mut ends = self.ends.lock();
        for (partition, ends) in &mut *ends {
            ends.head = heads.get(partition).map_or(ends.head, |head| *head);
            ends.settled = positions
                .get(partition)
                .map_or(ends.settled, |settled| *settled);
        }
        let lag = ends.values().map(|ends| ends.lag()).sum();
        let settled = ends.values().map(|ends| ends.settled).sum();
        self.lag.store(lag, Ordering::Relaxed);
        self.settled.store(settled, Ordering::Relaxed);
    }
}

/// A query in flight. If its answer takes long, a later run waits for the same answer and does not repeat the query.
#[derive(Debug)]
struct PendingQuery<T>(Option<JoinHandle<Result<T, LedgerError>>>);

impl<T> Default for PendingQuery<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> PendingQuery<T> {
    /// Starts the query, unless the last answer is still pending.
    fn ask(&mut self, ask: impl FnOnce() -> BoxFuture<Result<T, LedgerError>>) {
        if self.0.is_none() {
            self.0 = Some(tokio::spawn(ask()));
        }
    }

    /// The answer, if it arrives in time.
    async fn answer(&mut self, until: Instant, whose: &str) -> Result<T, String> {
        let Some(asked) = &mut self.0 else {
            return Err(format!("{whose} was not queried"));
        };
        let answer = match timeout_at(until, asked).await {
            Ok(Ok(answer)) => answer.map_err(|error| error.to_string()),
            Ok(Err(failed)) => Err(format!("query of {whose} failed: {failed}")),
            Err(_) => {
                return Err(format!(
                    "{whose} has not answered for {} ms",
                    ANSWER_MAX.as_millis()
                ));
            }
        };
        self.0 = None;
        answer
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Counts = Vec<(PartitionId, QuarantineCount)>;

struct MonitorReading {
    monitor: Arc<SettlementMonitor>,
    log: Arc<dyn EventLog>,
    ledger: Arc<dyn Ledger>,
    heads: BTreeMap<PartitionId, PendingQuery<Seq>>,
    positions: PendingQuery<Vec<(PartitionId, Seq)>>,
    counts: PendingQuery<Counts>,
    /// Time of the last count of quarantined entries.
    counted: Option<Instant>,
    stalls: Stalls,
    on_positions: OnPositions,
    /// Time of the last report of positions.
    said: Option<Instant>,
}

impl Reconciler for MonitorReading {
    /// Reads everything once. Partitions that do not answer count as making no progress, and are the error.
    ///
    /// Heads are read first, and do not wait for the ledger: while it does not answer, the lag grows. Positions are
    /// read after the heads, so entries that were appended between both reads do not count as unsettled.
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let mut failed = Vec::new();
        let heads = self.heads(&mut failed).await;
        let positions = self.positions(&mut failed).await;
        self.monitor.show(&heads, &positions);
        for (partition, settled) in &positions {
            self.log.note_settled(*partition, *settled);
        }
        self.say(&positions);
        for (partition, head) in heads {
            let settled = positions.get(&partition).copied();
            self.stalls
                .record_reading(partition, head, settled, Instant::now());
        }
        *self.monitor.stalled.lock() = self.stalls.stalled(Instant::now());
        self.count(&mut failed).await;
        failed
            .into_iter()
            .next()
            .map_or(Ok(NextRun::Wait), |error| Err(ReconcileError(error)))
    }
}

impl MonitorReading {
    /// Last entries of the logs that answer.
    async fn heads(&mut self, failed: &mut Vec<String>) -> BTreeMap<PartitionId, Seq> {
        for (partition, question) in &mut self.heads {
            let (log, partition) = (Arc::clone(&self.log), *partition);
            question.ask(|| Box::pin(async move { log.head(partition).await }));
        }
        let until = Instant::now() + ANSWER_MAX;
        let mut heads = BTreeMap::new();
        for (partition, question) in &mut self.heads {
            let whose = format!("the log of partition {}", partition.0);
            match question.answer(until, &whose).await {
                Ok(head) => drop(heads.insert(*partition, head)),
                Err(error) => failed.push(error),
            }
        }
        heads
    }

    /// Positions of the ledger, if it answers.
    async fn positions(&mut self, failed: &mut Vec<String>) -> BTreeMap<PartitionId, Seq> {
        let ledger = Arc::clone(&self.ledger);
        self.positions
            .ask(|| Box::pin(async move { ledger.positions().await }));
        let until = Instant::now() + ANSWER_MAX;
        match self.positions.answer(until, "the ledger").await {
            Ok(positions) => positions.into_iter().collect(),
            Err(error) => {
                failed.push(error);
                BTreeMap::new()
            }
        }
    }

    /// Reports the positions that were read, at a limited rate.
    fn say(&mut self, positions: &BTreeMap<PartitionId, Seq>) {
        let is_early = self.said.is_some_and(|at| at.elapsed() < SAY_EVERY);
        if is_early || positions.is_empty() {
            return;
        }
        self.said = Some(Instant::now());
        let positions: Vec<_> = positions.iter().map(|(id, seq)| (*id, *seq)).collect();
        (self.on_positions)(&positions);
    }

    /// Counts quarantined entries, at a limited rate.
    async fn count(&mut self, failed: &mut Vec<String>) {
        if self.counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return;
        }
        let (log, ledger) = (Arc::clone(&self.log), Arc::clone(&self.ledger));
        self.counts
            .ask(|| Box::pin(async move { count(&*log, &*ledger).await }));
        match self
            .counts
            .answer(Instant::now() + ANSWER_MAX, "the ledger")
            .await
        {
            Ok(counts) => *self.monitor.quarantine.lock() = counts,
            Err(error) => failed.push(error),
        }
        self.counted = self.counts.0.is_none().then(Instant::now).or(self.counted);
    }
}

/// Counts the quarantined entries of each partition. If there are none in total, one query suffices.
async fn count(log: &dyn EventLog, ledger: &dyn Ledger) -> Result<Counts, LedgerError> {
    let none = ledger.list_quarantined(None, 1).await?.is_empty();
    let mut counts = Vec::new();
    for partition in log.partitions() {
        let count = match none {
            true => QuarantineCount::default(),
            false => ledger.count_quarantined(partition).await?,
        };
        counts.push((partition, count));
    }
    Ok(counts)
}

/// Start times of stalls, by partition.
#[derive(Debug, Default)]
struct Stalls(BTreeMap<PartitionId, Stall>);

#[derive(Debug)]
struct Stall {
    settled: Seq,
    since: Instant,
}

impl Stalls {
    fn starting_at(positions: &BTreeMap<PartitionId, Seq>, since: Instant) -> Self {
        let stall = |(partition, settled): (&PartitionId, &Seq)| {
            let settled = *settled;
            (*partition, Stall { settled, since })
        };
        Self(positions.iter().map(stall).collect())
    }

    /// Records the end of a log and its settled position. `None` if the position is not known, or nothing is settled.
    fn record_reading(
        &mut self,
        partition: PartitionId,
        head: Seq,
        settled: Option<Seq>,
        now: Instant,
    ) {
        let last = self.0.get(&partition).map(|stall| stall.settled);
        let settled = settled.or(last).unwrap_or(0);
        if settled >= head || last != Some(settled) {
            let since = now;
            self.0.insert(partition, Stall { settled, since });
        }
    }

    fn stalled(&self, now: Instant) -> BTreeMap<PartitionId, String> {
        let long = |stall: &Stall| now.saturating_duration_since(stall.since) >= STALL_MAX;
        let stalled = self.0.iter().filter(|(_, stall)| long(stall));
        let why = |(partition, stall): (&PartitionId, &Stall)| {
            let why = format!(
                "partition {}: no entry after {} was settled for {} s; see the log of the process that settles it",
                partition.0,
                stall.settled,
                STALL_MAX.as_secs()
            );
            (*partition, why)
        };
        stalled.map(why).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_does_not_move_is_said() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stalls = Stalls::default();
        let mut check = |seconds, looks: [(u64, Option<u64>); 2], stalled: Option<&str>| {
            for (partition, (head, settled)) in (0..).zip(looks) {
                stalls.record_reading(PartitionId(partition), head, settled, at(seconds));
            }
            let said = stalls.stalled(at(seconds));
            let first = said.values().next();
            let begins = first.and_then(|said| said.split(':').next());
            assert_eq!(begins, stalled, "{seconds} s: {said:?}");
        };
        check(0, [(0, None), (0, None)], None);
        check(99, [(0, None), (0, None)], None);
        check(100, [(0, None), (7, None)], None);
        check(129, [(9, Some(9)), (7, Some(3))], None);
        check(158, [(9, Some(9)), (8, Some(3))], None);
        check(159, [(10, Some(9)), (9, Some(3))], Some("partition 1"));
        // A ledger that does not answer moves nothing.
        check(160, [(10, None), (9, None)], Some("partition 1"));
        check(161, [(10, Some(9)), (9, Some(4))], None);
        check(188, [(10, Some(9)), (9, Some(9))], Some("partition 0"));
        check(200, [(10, Some(10)), (9, Some(9))], None);
    }
}
