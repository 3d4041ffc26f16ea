//! What this node knows of one partition.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use qiang_core::event::{PartitionId, Seq};

/// One partition, as this node sees it.
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    /// The state's epoch: another one means that Redis was emptied or replaced.
    pub(crate) epoch: String,
    /// The last log entry that this node has observed and answered for. A log that ends before it has lost entries.
    min_head: AtomicU64,
    /// The last log entry that replicas are known to have.
    replicated: AtomicU64,
    /// Why nothing is granted here any more.
    halted: RwLock<Option<String>>,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, epoch: String, min_head: Seq) -> Self {
        Self {
            id,
            epoch,
            min_head: AtomicU64::new(min_head),
            replicated: AtomicU64::new(0),
            halted: RwLock::new(None),
        }
    }

    pub(crate) fn min_head(&self) -> Seq {
        self.min_head.load(Ordering::Acquire)
    }

    /// The log reaches to this entry, and somebody is about to rely on it.
    pub(crate) fn observe(&self, seq: Seq) {
        self.min_head.fetch_max(seq, Ordering::AcqRel);
    }

    pub(crate) fn replicated(&self) -> Seq {
        self.replicated.load(Ordering::Acquire)
    }

    /// Replicas have the log up to this entry.
    pub(crate) fn observe_replicated(&self, seq: Seq) {
        self.replicated.fetch_max(seq, Ordering::AcqRel);
    }

    pub(crate) fn halted(&self) -> Option<String> {
        self.halted.read().clone()
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.read().is_some()
    }

    /// Stops granting on this node. The first reason stays.
    pub(crate) fn halt(&self, reason: &str) {
        let mut halted = self.halted.write();
        if halted.is_none() {
            tracing::error!(
                partition = self.id.0,
                reason,
                "a partition has stopped granting"
            );
            *halted = Some(reason.to_owned());
        }
    }
}
