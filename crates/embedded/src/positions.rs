//! Settled position of each partition, to read and to wait for.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::LedgerError,
};
use tokio::sync::watch;

/// Maximum partitions of one ledger. A larger request is a mistake of the caller.
pub const PARTITIONS_MAX: usize = 4_096;

#[derive(Default)]
pub(crate) struct PartitionPositions(Mutex<BTreeMap<PartitionId, watch::Sender<Seq>>>);

impl PartitionPositions {
    /// Position of a partition; 0 if nothing of it is settled.
    pub(crate) fn for_partition(&self, partition: PartitionId) -> Seq {
        let positions = self.0.lock();
        positions.get(&partition).map_or(0, |at| *at.borrow())
    }

    /// Positions of all partitions with settled entries.
    pub(crate) fn all(&self) -> Vec<(PartitionId, Seq)> {
        let positions = self.0.lock();
        let all = positions.iter().map(|(id, at)| (*id, *at.borrow()));
        all.filter(|(_, at)| *at > 0).collect()
    }

    /// Returns a receiver of a partition's position.
    ///
    /// # Errors
    ///
    /// The ledger follows [`PARTITIONS_MAX`] other partitions.
    pub(crate) fn watch(
        &self,
        partition: PartitionId,
    ) -> Result<watch::Receiver<Seq>, LedgerError> {
        let mut positions = self.0.lock();
        if positions.len() >= PARTITIONS_MAX && !positions.contains_key(&partition) {
            let reason = format!("a ledger follows up to {PARTITIONS_MAX} partitions");
            return Err(LedgerError::Unavailable { reason });
        }
        Ok(positions.entry(partition).or_default().subscribe())
    }

    /// Moves the position of a partition that was admitted before.
    pub(crate) fn advance(&self, partition: PartitionId, seq: Seq) {
        let mut positions = self.0.lock();
        positions.entry(partition).or_default().send_replace(seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_bounded() {
        let positions = PartitionPositions::default();
        for n in 0..PARTITIONS_MAX {
            assert!(positions.watch(PartitionId(n as u16)).is_ok());
        }
        assert!(positions.watch(PartitionId(u16::MAX)).is_err());
        assert!(positions.watch(PartitionId(7)).is_ok());
        assert_eq!(positions.all(), [], "nothing of them is settled");
    }
}
