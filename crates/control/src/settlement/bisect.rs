//! When the books refuse a run: which entry it is about, and setting that one aside.

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{Ledger, LedgerError},
};

use super::StepError;

/// Entries of one partition that may be refused before something else must be wrong: then nothing more is set aside.
pub const REFUSED_MAX: u64 = 1_000;

/// Settles a run. If the books refuse it, settles what comes before the first entry that they refuse, and sets that
/// one aside; the rest is for the next step.
pub(super) async fn settle(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, StepError> {
    let mut rest = entries;
    let mut size = rest.len();
    loop {
        let part = &rest[..size.min(rest.len())];
        match ledger.settle(partition, part).await {
            Ok(settled) => {
                let left = rest.iter().skip_while(|entry| entry.seq <= settled).count();
                if left == 0 || left == rest.len() {
                    return Ok(settled);
                }
                rest = &rest[rest.len() - left..];
                size = (size / 2).max(1);
            }
            // A sum that leaves its range is a refusal like any other.
            Err(error @ (LedgerError::Damaged { .. } | LedgerError::Overflow)) => match part {
                [] => return Err(StepError::Ledger(error)),
                [entry] => return quarantine(ledger, partition, entry, error).await,
                _ => size = part.len() / 2,
            },
            Err(error) => return Err(StepError::Ledger(error)),
        }
    }
}

async fn quarantine(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entry: &Entry,
    refusal: LedgerError,
) -> Result<Seq, StepError> {
    let reason = match refusal {
        LedgerError::Damaged { reason } => reason,
        refusal => refusal.to_string(),
    };
    let count = ledger.count_quarantined(partition).await;
    if count.map_err(StepError::Ledger)?.refused >= REFUSED_MAX {
        let reason = format!("{REFUSED_MAX} entries are set aside already, and now: {reason}");
        return Err(StepError::Ledger(LedgerError::Damaged { reason }));
    }
    let settled = ledger.quarantine(partition, entry, &reason).await;
    let settled = settled.map_err(StepError::Ledger)?;
    tracing::error!(
        partition = partition.0,
        entry = entry.seq,
        reason,
        "an entry cannot be settled and is set aside"
    );
    Ok(settled)
}
