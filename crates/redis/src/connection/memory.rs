//! Memory of primaries, as of the last presence call.

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a server, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Used memory.
    pub used: u64,
    /// `maxmemory`; 0 without a limit.
    pub max: u64,
}

/// Memory of a partition's primary.
#[derive(Default)]
pub(crate) struct PrimaryMemory {
    used: AtomicU64,
    max: AtomicU64,
}

impl PrimaryMemory {
    pub(crate) fn note(&self, memory: MemoryUse) {
        self.used.store(memory.used, Ordering::Relaxed);
        self.max.store(memory.max, Ordering::Relaxed);
    }

    /// `None` before the first presence call, and for a server that does not tell.
    pub(crate) fn get(&self) -> Option<MemoryUse> {
        let memory = MemoryUse {
            used: self.used.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        };
        (memory.used > 0).then_some(memory)
    }
}
