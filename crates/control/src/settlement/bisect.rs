//! Finds the entry for which the ledger refuses a run, and quarantines it.

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{Ledger, LedgerError},
};

/// Entries of one partition that may be refused before something else must be wrong: then nothing more is quarantined.
pub const REFUSED_MAX: u64 = 1_000;

/// Settles a run. If the ledger refuses it, settles what comes before the first entry that it refuses, and quarantines
/// that one; the rest is for the next step.
pub(super) async fn settle(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, LedgerError> {
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
                [] => return Err(error),
                [entry] => return quarantine(ledger, partition, entry, error).await,
                _ => size = part.len() / 2,
            },
            Err(error) => return Err(error),
        }
    }
}

async fn quarantine(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entry: &Entry,
    refusal: LedgerError,
) -> Result<Seq, LedgerError> {
    let reason = match refusal {
        LedgerError::Damaged { reason } => reason,
        refusal => refusal.to_string(),
    };
    if ledger.count_quarantined(partition).await?.refused >= REFUSED_MAX {
        let reason = format!("{REFUSED_MAX} entries are in quarantine already, and now: {reason}");
        return Err(LedgerError::Damaged { reason });
    }
    let settled = ledger.quarantine(partition, entry, &reason).await?;
    tracing::error!(
        partition = partition.0,
        entry = entry.seq,
        reason,
        "an entry cannot be settled and is quarantined"
    );
    Ok(settled)
}
