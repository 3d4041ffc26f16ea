//! One step of settlement: some entries of one partition.

use std::time::Duration;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, LedgerError, Taken, Transport},
};

use super::bisect;

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Where the log ended.
    pub head: Seq,
    /// Up to where the ledger has it now.
    pub settled: Seq,
    /// How many entries were carried over.
    pub entries: usize,
    /// Whether the log knows what it may forget. Where it does not, it has to be told again.
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
    /// The log gave no answer, or no sense.
    #[error("the log cannot be read")]
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

/// Carries up to `limit` entries of a partition from the log into the ledger, and tells the log what it may forget.
/// An entry that the books refuse is set aside, and the step ends behind it.
/// Harmless however often it is done, and by however many at once.
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
    let entries = entries.map_err(|error| of_log(error, before))?;
    if entries.is_empty() {
        let reason = format!("it ends at entry {head}, and has none after {before}");
        return Err(StepError::Log(LedgerError::Damaged { reason }));
    }
    let settled = bisect::settle(ledger, partition, &entries).await?;
    Ok(StepResult {
        head: head.max(settled),
        settled,
        entries: entries.len(),
        released: log.release(partition, settled).await,
    })
}

/// The same with a transport in between, which is waited for `wait_max`, and told what is settled in place of the log.
///
/// # Errors
/// [`StepError`]; what the transport says counts as said by the log.
pub async fn settle_via(
    transport: &dyn Transport,
    log: &dyn EventLog,
    ledger: &dyn Ledger,
    partition: PartitionId,
    limit: usize,
    wait_max: Duration,
) -> Result<StepResult, StepError> {
    let (before, head) = ends(log, ledger, partition).await?;
    let taken = transport.take(partition, before, limit, wait_max).await;
    let entries = match taken.map_err(|error| of_log(error, before))? {
        Taken::Run(entries) => entries,
        Taken::Nothing | Taken::NotOwner => return Ok(idle(before, head)),
    };
    let settled = bisect::settle(ledger, partition, &entries).await?;
    Ok(StepResult {
        head: head.max(settled),
        settled,
        entries: entries.len(),
        released: transport.done(partition, settled).await,
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

fn of_log(error: LedgerError, settled: Seq) -> StepError {
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
    // In this order: a log that grows meanwhile is not mistaken for one that has shrunk.
    let settled = ledger.settled(partition).await;
    let settled = settled.map_err(StepError::Ledger)?;
    let head = log.head(partition).await;
    let head = head.map_err(|error| of_log(error, settled))?;
    if settled > head {
        return Err(StepError::RolledBack { settled, head });
    }
    Ok((settled, head))
}
