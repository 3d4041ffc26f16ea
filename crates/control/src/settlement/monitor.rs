//! What a node sees of settlement, whichever process settles: how far the log and the ledger are, which partition
//! stands still, and how many entries are in quarantine.

use std::{
    collections::BTreeMap,
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
use tokio::time::Instant;

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often heads and positions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often quarantined entries are counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// A partition with entries to settle whose position has not moved for this long stands still.
const STALL_MAX: Duration = Duration::from_secs(30);

/// What was seen last, over all partitions.
#[derive(Debug, Default)]
pub struct SettlementMonitor {
    head: AtomicU64,
    settled: AtomicU64,
    quarantine: Mutex<Vec<(PartitionId, QuarantineCount)>>,
    stalled: Mutex<Option<String>>,
}

impl SettlementMonitor {
    /// When it looks. It does not look less often at what does not answer: the lag behind it grows meanwhile.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Entries that are in the ledger.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Entries that are not.
    #[must_use]
    pub fn lag(&self) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        head.saturating_sub(self.settled())
    }

    /// How many entries of each partition are in quarantine.
    #[must_use]
    pub fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        self.quarantine.lock().clone()
    }

    /// Which partition stands still, if one does.
    #[must_use]
    pub fn stalled(&self) -> Option<String> {
        self.stalled.lock().clone()
    }

    /// What keeps this up to date.
    pub fn reconciler(
        self: &Arc<Self>,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
    ) -> impl Reconciler {
        Look {
            monitor: Arc::clone(self),
            log,
            ledger,
            counted: None,
            stalls: Stalls::default(),
        }
    }
}

struct Look {
    monitor: Arc<SettlementMonitor>,
    log: Arc<dyn EventLog>,
    ledger: Arc<dyn Ledger>,
    /// When quarantined entries were counted.
    counted: Option<Instant>,
    stalls: Stalls,
}

impl Reconciler for Look {
    /// Looks at everything once. What does not answer is taken to stand still, and is the error.
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let counted = self.count().await;
        let positions = self.ledger.positions().await;
        if let Ok(positions) = &positions {
            let settled = positions.iter().map(|(_, seq)| seq).sum();
            self.monitor.settled.store(settled, Ordering::Relaxed);
        }
        let mut failed = counted.err();
        let positions = positions.map_err(|error| failed = Some(error));
        let positions: BTreeMap<_, _> = positions.into_iter().flatten().collect();
        let mut sum = Some(0);
        for partition in self.log.partitions() {
            match self.log.head(partition).await {
                Ok(head) => {
                    sum = sum.map(|sum| sum + head);
                    let settled = positions.get(&partition).copied();
                    self.stalls.look(partition, head, settled, Instant::now());
                }
                Err(error) => {
                    sum = None;
                    failed = Some(error);
                }
            }
        }
        if let Some(sum) = sum {
            self.monitor.head.store(sum, Ordering::Relaxed);
        }
        *self.monitor.stalled.lock() = self.stalls.stalled(Instant::now());
        failed.map_or(Ok(Next::Wait), |error| {
            Err(Stuck::Failing(error.to_string()))
        })
    }
}

impl Look {
    /// Counts quarantined entries, now and then. Where there are none at all, that is one query.
    async fn count(&mut self) -> Result<(), LedgerError> {
        if self.counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return Ok(());
        }
        self.counted = Some(Instant::now());
        let none = self.ledger.list_quarantined(None, 1).await?.is_empty();
        let mut counts = Vec::new();
        for partition in self.log.partitions() {
            let count = match none {
                true => QuarantineCount::default(),
                false => self.ledger.count_quarantined(partition).await?,
            };
            counts.push((partition, count));
        }
        *self.monitor.quarantine.lock() = counts;
        Ok(())
    }
}

/// Since when partitions stand still.
#[derive(Debug, Default)]
struct Stalls(BTreeMap<PartitionId, Stall>);

#[derive(Debug)]
struct Stall {
    settled: Seq,
    since: Instant,
}

impl Stalls {
    /// Notes where a log ends and how far it is settled; none where that is not known, or nothing is.
    fn look(&mut self, partition: PartitionId, head: Seq, settled: Option<Seq>, now: Instant) {
        let last = self.0.get(&partition).map(|stall| stall.settled);
        let settled = settled.or(last).unwrap_or(0);
        if settled >= head || last != Some(settled) {
            let since = now;
            self.0.insert(partition, Stall { settled, since });
        }
    }

    fn stalled(&self, now: Instant) -> Option<String> {
        let long = |stall: &Stall| now.saturating_duration_since(stall.since) >= STALL_MAX;
        let (partition, stall) = self.0.iter().find(|(_, stall)| long(stall))?;
        Some(format!(
            "partition {}: nothing behind entry {} has been settled for {} s; whoever settles it says why",
            partition.0,
            stall.settled,
            STALL_MAX.as_secs()
        ))
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
                stalls.look(PartitionId(partition), head, settled, at(seconds));
            }
            let said = stalls.stalled(at(seconds));
            let begins = said.as_deref().and_then(|said| said.split(':').next());
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
