//! One step of settlement: some entries of one partition.

use std::time::Duration;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError},
};

use super::{bisect, consumer::PartitionConsumer};

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Where the log ended.
    pub head: Seq,
    /// Up to where the ledger has it now.
    pub settled: Seq,
    /// How many entries were read for it.
    pub entries: usize,
    /// Whether the log knows what it may forget. Where it does not, that has to be repeated.
    pub released: Result<(), LedgerError>,
}

/// Why a step was not made, or cannot be known to have been made. It may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The log has lost entries: what it holds now is not what the ledger follows from. Nothing was settled.
    #[error("the log ends at entry {head}, and the ledger has entry {settled}")]
    RolledBack {
        /// Up to where the ledger has it.
        settled: Seq,
        /// Where the log ends.
        head: Seq,
    },
    /// The log or the transport gave no answer, or no sense: the source says which.
    #[error("the entries cannot be read")]
    Log(#[source] LedgerError),
    /// The ledger gave no answer, or refused.
    #[error("the ledger does not take the entries")]
    Ledger(#[source] LedgerError),
}

impl StepError {
    /// The error and what is below it, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::RolledBack { .. } => self.to_string(),
            Self::Log(source) | Self::Ledger(source) => format!("{self}: {source}"),
        }
    }
}

/// Settles up to `limit` entries of a partition right from its log, and lets the log forget them. An entry that the
/// ledger refuses is quarantined, and the step ends behind it. Harmless however often it is done, and by however many
/// at once.
///
/// # Errors
/// [`StepError`]; a commit of the ledger whose fate is unknown is one, too.
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
        // Unless somebody else has settled meanwhile what is not there any more.
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

/// Settles up to `limit` entries of a consumer's partition, and acknowledges them. Waits for the first one, at most
/// `wait_max`.
///
/// # Errors
/// [`StepError`]; an error of the transport counts as one of the log.
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

/// Up to where the ledger has a partition, and where its log ends.
async fn ends(
    log: &dyn EventLog,
    ledger: &dyn Ledger,
    partition: PartitionId,
) -> Result<(Seq, Seq), StepError> {
    // In this order: a log that grows meanwhile is not mistaken for one that has shrunk. What replicas do not have yet
    // counts: it is read later, and nothing of it is lost.
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
