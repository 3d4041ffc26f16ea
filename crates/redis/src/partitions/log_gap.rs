//! Gaps in a partition's log: unsettled entries that an operator deleted or trimmed.
//!
//! Settlement finds a gap: the log continues after it, or ends before the partition's last entry. The grants of these
//! entries are still in Redis' rows. So the partition halts with an empty loss. Its repair unites rows, the ledger and
//! the nodes' answers from the first such entry on.

use parking_lot::Mutex;
use qiang_core::{
    campaign::AckLevel,
    event::{PartitionId, Seq},
    ports::EngineError,
};

use crate::{
    partitions::{Partitions, nobody},
    protocol::scripts::HALT_LOG_GAP,
};

/// A gap in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogGap {
    /// The epoch of the log: an entry of another one has the same number.
    pub(crate) epoch: String,
    /// The first missing entry.
    pub(crate) first: Seq,
    /// The last missing entry.
    pub(crate) last: Seq,
}

/// The last gap of one partition that settlement has found.
#[derive(Default)]
pub(crate) struct LogGapNote(Mutex<Option<LogGap>>);

impl LogGapNote {
    /// Records a gap, and replaces an earlier one.
    pub(crate) fn set(&self, gap: LogGap) {
        *self.0.lock() = Some(gap);
    }

    /// Removes the gap and returns it; `None` if none was recorded since the last call.
    pub(crate) fn take(&self) -> Option<LogGap> {
        self.0.lock().take()
    }
}

impl Partitions {
    /// Halts a partition because its log has a gap after the ledger's position; returns whether it has halted. It does
    /// not halt if the log has one of the entries, or is of another epoch. Nor does it halt if the ledger had the
    /// entries and was set back.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn halt_log_gap(
        &self,
        partition: PartitionId,
        gap: &LogGap,
    ) -> Result<bool, EngineError> {
        let asks = Some(AckLevel::Memory);
        let reply = self
            .call(partition, &HALT_LOG_GAP, nobody(), asks, &|command| {
                command.arg(gap.first).arg(gap.last).arg(&gap.epoch)
            })
            .await?;
        let is_halted = reply.text() == "1";
        if is_halted {
            self.get(partition).suspect();
        }
        Ok(is_halted)
    }
}
