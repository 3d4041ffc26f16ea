//! Bodies of answers about the partitions.

use std::collections::BTreeMap;

use crate::{
    bodies::bodies,
    ids::CampaignId,
    values::Timestamp,
    words::{ReadinessStatus, RepairResult},
};

bodies! {
    /// All partitions, as the node that answers sees them.
    Partitions {
        /// The partitions.
        partitions: Vec<Partition>,
        /// Claims and commands that wait for the engine.
        queue_length: u64,
        /// Log entries that are not in the ledger yet.
        settlement_lag: u64,
        /// Whether partitions of this engine may lose entries, and can be repaired and resumed.
        repairable: bool,
        /// Overdue maintenance that the node retries.
        #[serde(skip_serializing_if = "Option::is_none")]
        upkeep_stuck: Option<String>,
    }
    /// A partition.
    Partition {
        /// Its number.
        partition: u16,
        /// Its readiness.
        status: ReadinessStatus,
        /// Reason of a status other than ready.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Its log entries that are not in the ledger yet; absent if the number per partition is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_lag: Option<u64>,
        /// Reason why its settlement is stuck.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_stuck: Option<String>,
        /// Its entries that the ledger refused.
        refused: u64,
        /// Its entries that wait for refused ones.
        waiting: u64,
        /// Differences between engine and ledger; absent if this process does not reconcile.
        #[serde(skip_serializing_if = "Option::is_none")]
        reconciliation: Option<PartitionReconciliation>,
    }
    /// Result of comparing engine and ledger.
    PartitionReconciliation {
        /// Number of differences, by kind.
        differences: BTreeMap<String, u64>,
        /// Time of the last comparison of rows. Absent if none was compared, for example without live campaigns.
        #[serde(skip_serializing_if = "Option::is_none")]
        ran_at: Option<Timestamp>,
        /// Time at which all live campaigns had been compared.
        #[serde(skip_serializing_if = "Option::is_none")]
        passed_at: Option<Timestamp>,
    }
    /// Partition with its nodes and repairs.
    PartitionDetail {
        /// The partition.
        #[serde(flatten)]
        partition: Partition,
        /// The last entry that is in the ledger.
        settled: u64,
        /// Fields of the engine's state, as texts.
        engine: BTreeMap<String, String>,
        /// The nodes that report to it.
        nodes: Vec<NodeSighting>,
        /// The last repairs in the ledger, newest first.
        repairs: Vec<RepairRecord>,
        /// Withheld units in the ledger.
        withheld: Vec<Withheld>,
    }
    /// Node as a partition sees it.
    NodeSighting {
        /// Its name.
        node: String,
        /// Time of its last presence call, by the engine's clock.
        seen_at: Timestamp,
        /// The term in which it has reported.
        term: u64,
        /// The last entry that it has observed.
        observed: u64,
    }
    /// Repair in the ledger.
    RepairRecord {
        /// Epoch under which the partition continues.
        epoch: String,
        /// Time of its start.
        at: Timestamp,
        /// Number of lost entries that some node had observed.
        lost: u64,
        /// Number of lost entries with unknown content.
        unnamed: u64,
        /// Reason of the halt.
        reason: String,
        /// The last entry of the log after the repair; absent until the repair ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        upto: Option<u64>,
    }
    /// Units of a campaign that a repair has withheld.
    Withheld {
        /// The repair's epoch.
        epoch: String,
        /// The campaign.
        campaign: CampaignId,
        /// Number of units.
        units: u64,
        /// Value in minor units, for shares.
        amount_minor: i64,
        /// Time of their release or return.
        #[serde(skip_serializing_if = "Option::is_none")]
        released_at: Option<Timestamp>,
    }
    /// Result of a repair.
    Repair {
        /// Whether entries were lost, and whether the partition is repaired.
        result: RepairResult,
        /// Campaigns examined.
        campaigns: u64,
        /// Rows that the engine had lost and that were restored.
        restored: u64,
        /// Entries appended because neither the log nor the ledger had them.
        appended: u64,
        /// Lost entries with unknown content.
        unnamed: u64,
        /// Withheld units.
        withheld: u64,
        /// Campaigns taken out of service because the ledger cannot read them.
        out_of_service: u64,
        /// Conflicts with the ledger that the repair cannot resolve, one line each.
        conflicts: Vec<String>,
    }
    /// Result of reconciling a partition with the ledger.
    Reconciled {
        /// Time of its start.
        ran_at: Timestamp,
        /// Whether all live campaigns were compared. False if that takes longer than five seconds.
        complete: bool,
        /// Campaigns compared completely.
        campaigns: u64,
        /// Rows compared.
        rows: u64,
        /// Number of differences, by kind. Each was found twice, with a pause between.
        differences: BTreeMap<String, u64>,
        /// The first hundred differences, one line each.
        examples: Vec<String>,
    }
    /// Result of ending a halt.
    Resumed {
        /// False if the partition was not halted.
        resumed: bool,
    }
    /// Result of releasing withheld units.
    Released {
        /// Units that can be claimed again.
        units: u64,
    }
}
