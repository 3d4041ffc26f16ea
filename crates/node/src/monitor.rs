//! Observes settlement from outside, whichever process settles: how far log and ledger are, which partition is stalled,
//! and what the ledger has quarantined.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError, QuarantineCount},
};

/// How often heads and positions are read.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// How often quarantined entries are counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// A partition with entries to settle whose position has not moved for this long is stalled.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How far log and ledger are, over all partitions, and what the ledger has quarantined of each.
#[derive(Debug, Default)]
pub(crate) struct SettlementMonitor {
    head: AtomicU64,
    settled: AtomicU64,
    quarantine: Mutex<Vec<(PartitionId, QuarantineCount)>>,
    stalled: Mutex<Option<String>>,
}

impl SettlementMonitor {
    /// Entries that are in the ledger.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Entries that are not.
    pub(crate) fn lag(&self) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        head.saturating_sub(self.settled())
    }

    /// How many entries are quarantined of each partition.
    pub(crate) fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        self.quarantine.lock().clone()
    }

    /// Which partition is stalled, if one is.
    pub(crate) fn stalled(&self) -> Option<String> {
        self.stalled.lock().clone()
    }

    /// Polls log and ledger for ever. One that does not answer counts as not moving.
    pub(crate) async fn run(self: Arc<Self>, log: Arc<dyn EventLog>, ledger: Arc<dyn Ledger>) {
        let mut counted = None::<Instant>;
        let mut stalls = Stalls::default();
        loop {
            if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                if let Ok(counts) = count_quarantined(&*ledger, &log.partitions()).await {
                    *self.quarantine.lock() = counts;
                }
                counted = Some(Instant::now());
            }
            let positions = ledger.positions().await.ok();
            if let Some(positions) = &positions {
                let settled = positions.iter().map(|(_, seq)| seq).sum();
                self.settled.store(settled, Ordering::Relaxed);
            }
            let positions: BTreeMap<_, _> = positions.into_iter().flatten().collect();
            let mut sum = 0;
            let mut whole = true;
            for partition in log.partitions() {
                match log.head(partition).await {
                    Ok(head) => {
                        sum += head;
                        let settled = positions.get(&partition).copied();
                        stalls.observe(partition, head, settled, Instant::now());
                    }
                    Err(_) => whole = false,
                }
            }
            if whole {
                self.head.store(sum, Ordering::Relaxed);
            }
            *self.stalled.lock() = stalls.stalled(Instant::now());
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

/// Since when positions have not moved.
#[derive(Debug, Default)]
struct Stalls(BTreeMap<PartitionId, Stall>);

#[derive(Debug)]
struct Stall {
    settled: Seq,
    since: Instant,
}

impl Stalls {
    /// Records where a log ends and how far it is settled: none where nothing is, or that is unknown.
    fn observe(&mut self, partition: PartitionId, head: Seq, settled: Option<Seq>, now: Instant) {
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
            "partition {}: nothing behind entry {} has been settled for {} s; the process that settles it logs why",
            partition.0,
            stall.settled,
            STALL_MAX.as_secs()
        ))
    }
}

/// How many entries are quarantined of each partition. Where nothing is at all, that takes one query.
async fn count_quarantined(
    ledger: &dyn Ledger,
    partitions: &[PartitionId],
) -> Result<Vec<(PartitionId, QuarantineCount)>, LedgerError> {
    let nothing = ledger.list_quarantined(None, 1).await?.is_empty();
    let mut counts = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let count = match nothing {
            true => QuarantineCount::default(),
            false => ledger.count_quarantined(*partition).await?,
        };
        counts.push((*partition, count));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_does_not_move_is_reported() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stalls = Stalls::default();
        let mut check = |seconds, seen: [(u64, Option<u64>); 2], stalled: Option<&str>| {
            for (partition, (head, settled)) in (0..).zip(seen) {
                stalls.observe(PartitionId(partition), head, settled, at(seconds));
            }
            let reported = stalls.stalled(at(seconds));
            let begins = reported.as_deref().and_then(|text| text.split(':').next());
            assert_eq!(begins, stalled, "{seconds} s: {reported:?}");
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
