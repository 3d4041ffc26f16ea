//! Figures of a node for operators. The node implements them; `/readyz` and `/metrics` show them.

use std::collections::BTreeSet;

use qiang_core::{
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{GateAnswers, LastAudit, QuarantineCount, TransportStatus},
    reconcile::PartitionFindings,
};

/// Figures of the engine and of settlement, in addition to the ports.
pub trait Gauges: Send + Sync + 'static {
    /// Claims and commands that wait for the engine.
    fn queued(&self) -> usize;

    /// Campaigns in the engine's memory; `None` if the engine keeps them elsewhere.
    fn campaigns_in_memory(&self) -> Option<usize> {
        None
    }

    /// Log entries, and settled ones, over all partitions.
    fn positions(&self) -> (Seq, Seq);

    /// Log entries of a partition that are not settled; `None` if the lag is not known per partition.
    fn lag_in(&self, partition: PartitionId) -> Option<u64> {
        let _ = partition;
        None
    }

    /// Reason why settlement is stuck; `None` if it is not.
    fn stuck(&self) -> Option<String>;

    /// Reason why settlement of a partition is stuck; `None` if it is not.
    fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        let _ = partition;
        self.stuck()
    }

    /// Quarantined entries of each partition, as of the last count.
    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)>;

    /// Answers of the gate and of the engine to claims of this process.
    fn gate_answers(&self) -> GateAnswers {
        GateAnswers::default()
    }

    /// Reason why this process serves no request; `None` if it serves.
    fn stopped(&self) -> Option<String> {
        None
    }

    /// Each partition, with the reason why it grants nothing at present, if it does not.
    fn partitions(&self) -> Vec<(PartitionId, Option<String>)>;

    /// Each partition whose grants may wait for replicas, with the number of replicas that its primary lacks.
    fn replicas_missing(&self) -> Vec<(PartitionId, u32)> {
        Vec::new()
    }

    /// Memory of each partition's primary in Redis.
    fn redis_memory(&self) -> Vec<(PartitionId, MemoryOfServer)> {
        Vec::new()
    }

    /// Seconds by which the clock that decides is ahead of its reference; `None` while it is unknown. With Redis: the
    /// server with the largest difference, compared with this machine. Otherwise: the system clock, compared since
    /// the start with a clock that cannot be set.
    fn clock_offset_seconds(&self) -> Option<f64> {
        None
    }

    /// Seconds between the newest entry of the engine's file and the start of this process; `None` without such a file.
    fn start_gap_seconds(&self) -> Option<f64> {
        None
    }

    /// Disk of the file that this process writes; `None` if it writes none.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// Result of the last scheduled audit; `None` if this process runs none.
    fn last_audit(&self) -> Option<LastAudit> {
        None
    }

    /// Overdue work that this process retries, if there is any: drafts that are not open, queues that are not
    /// decided, packets that are not closed.
    fn upkeep_stuck(&self) -> Option<String> {
        None
    }

    /// Campaigns that repairs have taken out of service, as this process has found a moment ago.
    fn campaigns_out_of_service(&self) -> BTreeSet<CampaignId> {
        BTreeSet::new()
    }

    /// Findings of comparisons of engine and ledger, in the partitions that this process reconciles. `None` if it
    /// reconciles nothing.
    fn reconciliation(&self) -> Option<Vec<PartitionFindings>> {
        None
    }

    /// Transport of entries to the ledger; `None` if this process runs none.
    fn transport_report(&self) -> Option<TransportReport> {
        None
    }
}

/// Memory of a server, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOfServer {
    /// Used memory.
    pub used: u64,
    /// Limit; 0 without one.
    pub max: u64,
}

/// A disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Bytes that this process can still write.
    pub available: u64,
    /// Size of the whole disk.
    pub size: u64,
}

/// The state of the transport of entries to the ledger.
#[derive(Debug, Clone)]
pub struct TransportReport {
    /// Configured name of the transport.
    pub transport: &'static str,
    /// State per partition.
    pub partitions: Vec<PartitionReport>,
}

/// The state of one partition, and of the transport for it.
#[derive(Debug, Clone)]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// Log entries that are not settled yet.
    pub lag: u64,
    /// Status that the transport reports.
    pub status: TransportStatus,
}
