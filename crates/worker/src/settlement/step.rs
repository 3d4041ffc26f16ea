//! One step of settlement: some entries of one partition.

use std::time::Duration;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError},
};

use super::{bisect, consumer::PartitionConsumer};

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Last entry of the log.
    pub head: Seq,
    /// Last entry that the ledger has now.
    pub settled: Seq,
    /// Number of entries that the step read.
    pub entries: usize,
    /// Whether the log was released up to the settled position. After an error the release must be repeated.
    pub released: Result<(), LedgerError>,
}

/// Reason why a step failed, or may have failed. It may be retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The log has lost entries, so it no longer matches the ledger. Nothing was settled.
    #[error("the log ends at entry {head}, and the ledger has entry {settled}")]
    RolledBack {
        /// Last entry that the ledger has.
        settled: Seq,
        /// Last entry of the log.
        head: Seq,
    },
    /// The log or the transport gave no answer or an invalid one. The source says which.
    #[error("cannot read entries")]
    Log(#[source] LedgerError),
    /// The ledger gave no answer, or refused.
    #[error("cannot write entries to the ledger")]
    Ledger(#[source] LedgerError),
}

impl StepError {
    /// The error and its source, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::RolledBack { .. } => self.to_string(),
            Self::Log(source) | Self::Ledger(source) => format!("{self}: {source}"),
        }
    }
}

/// Settles up to `limit` entries of a partition directly from its log, and releases them from the log. If the ledger
/// refuses an entry, that entry is quarantined, and the step ends after it. Any number of processes may repeat this
/// concurrently.
///
/// # Errors
/// [`StepError`], also if the result of a ledger commit is unknown.
pub async fn settle_once(
    log: &dyn EventLog,
    ledger: &dyn Ledger,
    partition: PartitionId,
    limit: usize,
) -> Result<StepResult, StepError> {
    let (before, head) = ends(log, ledger, partition).await?;
    if before == head {
        return Ok(idle(before, head));
    }
    let entries = log.read(partition, before, limit).await;
    let entries = entries.map_err(|error| log_error(error, before))?;
    if entries.is_empty() && log.awaits_replicas(partition) {
        return Ok(idle(before, head));
    }
    let (first, last) = (
        before + 1,
        entries.first().map_or(head, |next| next.seq - 1),
    );
    if last >= first {
        // Entries are missing, unless another worker has settled and released them during this step.
        let settled = ledger.settled(partition).await.map_err(StepError::Ledger)?;
        return match settled == before {
            true => {
                log.note_log_gap(partition, first, last);
                Err(StepError::Log(LedgerError::LogGone { first, last }))
            }
            false => Ok(idle(settled, head.max(settled))),
        };
    }
    let settled = bisect::settle(ledger, partition, &entries).await;
    let settled = settled.map_err(StepError::Ledger)?;
    Ok(StepResult {
        head: head.max(settled),
        settled,
        entries: entries.len(),
        released: log.release(partition, settled).await,
    })
}

/// Settles up to `limit` entries of a consumer's partition, and acknowledges them. Waits at most `wait_max` for the
/// first entry.
///
/// # Errors
/// [`StepError`]. An error of the transport counts as an error of the log.
pub async fn settle_via(
    consumer: &mut PartitionConsumer,
    ledger: &dyn Ledger,
    limit: usize,
    wait_max: Duration,
) -> Result<StepResult, StepError> {
    let partition = consumer.partition;
    let (before, head) = ends(&*consumer.log, ledger, partition).await?;
    let taken = consumer.take(before, limit, wait_max).await;
    if let Err(LedgerError::LogGone { first, last }) = taken {
        consumer.log.note_log_gap(partition, first, last);
    }
    let entries = taken.map_err(|error| log_error(error, before))?;
    if entries.is_empty() {
        return Ok(idle(before, head));
    }
    let settled = bisect::settle(ledger, partition, &entries).await;
    let settled = settled.map_err(StepError::Ledger)?;
    Ok(StepResult {
        head: head.max(settled),
        settled,
        entries: entries.len(),
        released: consumer.ack(settled).await,
    })
}

fn idle(settled: Seq, head: Seq) -> StepResult {
    StepResult {
        head,
        settled,
        entries: 0,
        released: Ok(()),
    }
}

fn log_error(error: LedgerError, settled: Seq) -> StepError {
    match error {
        LedgerError::LogLost { head } => StepError::RolledBack { settled, head },
        other => StepError::Log(other),
    }
}

/// Last entry that the ledger has of a partition, and last entry of its log.
async fn ends(
    log: &dyn EventLog,
    ledger: &dyn Ledger,
    partition: PartitionId,
) -> Result<(Seq, Seq), StepError> {
    // The ledger is read first, so a log that grows in between is not mistaken for one that has shrunk. Entries that
    // replicas lack count, because they are read later and are not lost.
    let settled = ledger.settled(partition).await;
    let settled = settled.map_err(StepError::Ledger)?;
    log.note_settled(partition, settled);
    let head = log.head(partition).await;
    let head = head.map_err(|error| log_error(error, settled))?;
    if settled > head {
        return Err(StepError::RolledBack { settled, head });
    }
    Ok((settled, head))
}
