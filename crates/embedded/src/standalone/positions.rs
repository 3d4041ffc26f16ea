//! How far each partition is settled, for those who ask and those who wait.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use qiang_core::event::{PartitionId, Seq};
use tokio::sync::watch;

/// Partitions that one ledger follows. Whoever asks for more has mistaken something.
pub const PARTITIONS_MAX: usize = 4_096;

/// The committed positions.
#[derive(Default)]
pub(super) struct Positions(Mutex<BTreeMap<PartitionId, watch::Sender<Seq>>>);

impl Positions {
    /// A partition's position; 0 for one of which nothing is settled.
    pub(super) fn of(&self, partition: PartitionId) -> Seq {
        let positions = self.0.lock();
        positions.get(&partition).map_or(0, |at| *at.borrow())
    }

    /// All partitions of which something is settled.
    pub(super) fn all(&self) -> Vec<(PartitionId, Seq)> {
        let positions = self.0.lock();
        let all = positions
            .iter()
            .map(|(partition, at)| (*partition, *at.borrow()));
        all.filter(|(_, at)| *at > 0).collect()
    }

    /// A partition's position from here on; `None` where there would be more partitions than there may be.
    pub(super) fn watch(&self, partition: PartitionId) -> Option<watch::Receiver<Seq>> {
        let mut positions = self.0.lock();
        if positions.len() >= PARTITIONS_MAX && !positions.contains_key(&partition) {
            return None;
        }
        let at = positions
            .entry(partition)
            .or_insert_with(|| watch::Sender::new(0));
        Some(at.subscribe())
    }

    /// Moves a partition, which has been admitted before.
    pub(super) fn advance(&self, partition: PartitionId, seq: Seq) {
        let mut positions = self.0.lock();
        let at = positions
            .entry(partition)
            .or_insert_with(|| watch::Sender::new(0));
        at.send_replace(seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_bounded() {
        let positions = Positions::default();
        for n in 0..PARTITIONS_MAX {
            assert!(positions.watch(PartitionId(n as u16)).is_some());
        }
        assert!(positions.watch(PartitionId(u16::MAX)).is_none());
        assert!(positions.watch(PartitionId(7)).is_some());
        assert_eq!(positions.all(), [], "nothing of them is settled");
    }
}
