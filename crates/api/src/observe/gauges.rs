//! What operators observe of a node: the node implements it, `/readyz` and `/metrics` show it.

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{GateAnswers, QuarantineCount, TransportStatus},
    reconcile::PartitionFindings,
};

/// What operators observe of an engine and of settlement, beside the ports.
pub trait Gauges: Send + Sync + 'static {
    /// Claims and commands that wait for the engine.
    fn queued(&self) -> usize;

    /// Campaigns that an engine has in memory; none where it has them elsewhere.
    fn campaigns_in_memory(&self) -> Option<usize> {
        None
    }

    /// Log entries there are, and how many of them are settled, over all partitions.
    fn positions(&self) -> (Seq, Seq);

    /// Log entries of a partition that are not settled yet; none where that is not known by partition.
    fn lag_in(&self, partition: PartitionId) -> Option<u64> {
        let _ = partition;
        None
    }

    /// Why settlement is stuck, if it is.
    fn stuck(&self) -> Option<String>;

    /// Whether and why settlement of a partition is stuck.
    fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        let _ = partition;
        self.stuck()
    }

    /// How many entries of each partition the ledger has quarantined, as counted a while ago.
    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)>;

    /// How claims were answered that were submitted to the engine of this process.
    fn gate_answers(&self) -> GateAnswers {
        GateAnswers::default()
    }

    /// Why this process serves nothing at all, if that is so.
    fn stopped(&self) -> Option<String> {
        None
    }

    /// Every partition, and why nothing is granted there at the moment, if that is so.
    fn partitions(&self) -> Vec<(PartitionId, Option<String>)>;

    /// Every partition whose grants may wait for replicas, and how many of these replicas its primary does not have.
    fn replicas_missing(&self) -> Vec<(PartitionId, u32)> {
        Vec::new()
    }

    /// By how many seconds the clock that decides is ahead of the one that it is held against: Redis' ahead of this
    /// machine's, on the server where it is furthest off; the system's ahead of one that nobody can set, since the
    /// start. None while it is not known.
    fn clock_offset_seconds(&self) -> Option<f64> {
        None
    }

    /// The disk of the file that this process writes, if it writes one.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// What this process should have done by now and tries again, if there is anything: drafts that are not open, lines
    /// that are not decided, packets that are not closed.
    fn upkeep_stuck(&self) -> Option<String> {
        None
    }

    /// What was found where engine and ledger were held against each other, in the partitions that this process
    /// reconciles; none where it reconciles nothing.
    fn reconciliation(&self) -> Option<Vec<PartitionFindings>> {
        None
    }

    /// The transport of entries to the ledger, where this process runs one.
    fn transport_report(&self) -> Option<TransportReport> {
        None
    }
}

/// A disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// What this process may still write.
    pub available: u64,
    /// All of it.
    pub size: u64,
}

/// The state of the transport of entries to the ledger.
#[derive(Debug, Clone)]
pub struct TransportReport {
    /// Which transport, as it is configured.
    pub transport: &'static str,
    /// Each partition.
    pub partitions: Vec<PartitionReport>,
}

/// The state of one partition, and of the transport for it.
#[derive(Debug, Clone)]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// Log entries that are not settled yet.
    pub lag: u64,
    /// What the transport says.
    pub status: TransportStatus,
}
