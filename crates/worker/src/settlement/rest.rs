//! Settles the remaining entries of a process that stops: up to a goal per partition, in a limited time.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::{ENTRIES_MAX, POLL_INTERVAL, step::settle_once};

/// A partition of which the ledger lacks entries that a stopping process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The partition.
    pub partition: PartitionId,
    /// The last entry that the ledger has; `None` if the ledger did not answer.
    pub settled: Option<Seq>,
    /// The last entry that the process knows.
    pub known: Seq,
    /// Why the rest is not settled.
    pub reason: String,
}

/// Settles each partition directly from its log, up to its current end and at least up to `known`. That is the last
/// entry that this process has answered or read. Waits at most `wait_max`, and returns the partitions that are not
/// complete. Other processes may settle the same entries concurrently.
pub async fn settle_rest(
    log: &Arc<dyn EventLog>,
    ledger: &Arc<dyn Ledger>,
    known: Vec<(PartitionId, Seq)>,
    wait_max: Duration,
) -> Vec<Unsettled> {
    let until = Instant::now() + wait_max;
    let mut settling = JoinSet::new();
    for known in known {
        let (log, ledger) = (Arc::clone(log), Arc::clone(ledger));
        settling.spawn(async move { rest_of(&*log, &*ledger, known, until).await });
    }
    let mut left: Vec<_> = settling.join_all().await.into_iter().flatten().collect();
    left.sort_unstable_by_key(|unsettled| unsettled.partition);
    left
}

async fn rest_of(
    log: &dyn EventLog,
    ledger: &dyn Ledger,
    (partition, known): (PartitionId, Seq),
    until: Instant,
) -> Option<Unsettled> {
    let mut left = Unsettled {
        partition,
        settled: timeout_at(until, ledger.settled(partition))
            .await
            .ok()
            .and_then(Result::ok),
        known,
        reason: "the time limit was reached".to_owned(),
    };
    // The goal is the current end, because other nodes may append entries for as long as this one waits.
    if let Ok(Ok(head)) = timeout_at(until, log.head(partition)).await {
        left.known = known.max(head);
    }
    // The timeout cancels only the wait: a commit in flight succeeds or fails without it.
    let is_done = timeout_at(until, settle_up_to(log, ledger, &mut left)).await;
    is_done.is_err().then_some(left)
}

/// Returns once the ledger has all entries up to the goal.
async fn settle_up_to(log: &dyn EventLog, ledger: &dyn Ledger, left: &mut Unsettled) {
    let partition = left.partition;
    loop {
        match ledger.settled(partition).await {
            Ok(settled) if settled >= left.known => return,
            Ok(settled) => left.settled = Some(settled),
            Err(error) => left.reason = error.to_string(),
        }
        match settle_once(log, ledger, partition, ENTRIES_MAX).await {
            Ok(step) if step.entries > 0 => continue,
            Ok(_) if log.awaits_replicas(partition) => {
                "replicas lack these entries".clone_into(&mut left.reason);
            }
            Ok(_) => "the log lacks these entries".clone_into(&mut left.reason),
            Err(error) => left.reason = error.chain(),
        }
        sleep(POLL_INTERVAL).await;
    }
}
