//! Settles a run of entries, and isolates an entry that the ledger refuses.

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{Ledger, LedgerError},
    settlement::{QuarantineBisect, check_refused},
};

/// Settles a run. If the ledger refuses it, settles the entries before the first refused one, and quarantines that
/// entry. The next step settles the rest.
pub(super) async fn settle(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, LedgerError> {
    let mut bisect = QuarantineBisect::new(entries);
    loop {
        match ledger.settle(partition, bisect.part()).await {
            Ok(settled) if bisect.settled(settled) => {}
            Ok(settled) => return Ok(settled),
            Err(error) => {
                if let Some((entry, reason)) = bisect.failed(error)? {
                    return quarantine(ledger, partition, entry, &reason).await;
                }
            }
        }
    }
}

async fn quarantine(
    ledger: &dyn Ledger,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, LedgerError> {
    check_refused(ledger.count_quarantined(partition).await?, reason)?;
    let settled = ledger.quarantine(partition, entry, reason).await?;
    tracing::error!(
        partition = partition.0,
        entry = entry.seq,
        reason,
        "an entry cannot be settled and is quarantined"
    );
    Ok(settled)
}
