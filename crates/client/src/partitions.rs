//! Partitions, and what operators do to one that has stopped. Scope `admin`.

use std::collections::BTreeMap;

use crate::{
    bodies::bodies,
    call::Call,
    client::Client,
    error::Error,
    ids::CampaignId,
    values::Timestamp,
    words::{ReadinessStatus, RepairResult},
};

bodies! {
    /// All partitions, as the node that answers sees them.
    Partitions {
        /// Each of them.
        partitions: Vec<Partition>,
        /// Claims and commands that wait for the engine.
        queue_length: u64,
        /// Log entries that are not yet in the ledger.
        settlement_lag: u64,
        /// Whether partitions of this engine may lose something, and can be repaired and resumed.
        repairable: bool,
        /// What the node should have done by now and tries again.
        #[serde(skip_serializing_if = "Option::is_none")]
        upkeep_stuck: Option<String>,
    }
    /// A partition.
    Partition {
        /// Its number.
        partition: u16,
        /// How ready it is.
        status: ReadinessStatus,
        /// Why it is no better.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Its log entries that are not yet in the ledger, where that is known by partition.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_lag: Option<u64>,
        /// Why its settlement is stuck, while it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_stuck: Option<String>,
        /// Its entries that the ledger refused.
        refused: u64,
        /// Its entries that wait for these.
        waiting: u64,
        /// What was found where engine and ledger were held against each other, if this process does that.
        #[serde(skip_serializing_if = "Option::is_none")]
        reconciliation: Option<PartitionReconciliation>,
    }
    /// Engine and ledger, held against each other.
    PartitionReconciliation {
        /// How many differences there are, by kind.
        differences: BTreeMap<String, u64>,
        /// When rows were compared last.
        #[serde(skip_serializing_if = "Option::is_none")]
        ran_at: Option<Timestamp>,
        /// When everything that is live had been compared.
        #[serde(skip_serializing_if = "Option::is_none")]
        passed_at: Option<Timestamp>,
    }
    /// A partition with its nodes and its repairs.
    PartitionDetail {
        /// The partition.
        #[serde(flatten)]
        partition: Partition,
        /// The last entry that is in the ledger.
        settled: u64,
        /// What the engine keeps of its state, as texts.
        engine: BTreeMap<String, String>,
        /// The nodes that it has seen.
        nodes: Vec<NodeSighting>,
        /// The last repairs, newest first, as the ledger has them.
        repairs: Vec<RepairRecord>,
        /// What repairs have withheld, as the ledger has it.
        withheld: Vec<Withheld>,
    }
    /// A node as a partition has seen it.
    NodeSighting {
        /// Its name.
        node: String,
        /// When it was heard of last, by the engine's clock.
        seen_at: Timestamp,
        /// The term in which it has reported.
        term: u64,
        /// The last entry that it has observed.
        observed: u64,
    }
    /// A repair as the ledger has it.
    RepairRecord {
        /// Under which the partition goes on.
        epoch: String,
        /// When it began.
        at: Timestamp,
        /// How many entries were lost, as far as somebody had observed them.
        lost: u64,
        /// How many of them nobody can name.
        unnamed: u64,
        /// Why the partition had halted.
        reason: String,
        /// The last entry of the log after it; none while it is not finished.
        #[serde(skip_serializing_if = "Option::is_none")]
        upto: Option<u64>,
    }
    /// What a repair has withheld of a campaign.
    Withheld {
        /// The repair's epoch.
        epoch: String,
        /// The campaign.
        campaign: CampaignId,
        /// Units.
        units: u64,
        /// What they are worth in minor units, where they are shares.
        amount_minor: i64,
        /// Since when they can be had again, or have been returned.
        #[serde(skip_serializing_if = "Option::is_none")]
        released_at: Option<Timestamp>,
    }
    /// What a repair came to.
    Repair {
        /// Whether something was lost, and is whole again.
        result: RepairResult,
        /// Campaigns that were looked at.
        campaigns: u64,
        /// Rows that the engine had lost and has again.
        restored: u64,
        /// Entries that were appended: neither the log nor the ledger had them.
        appended: u64,
        /// Entries that nobody can name.
        unnamed: u64,
        /// Units that are withheld.
        withheld: u64,
        /// What cannot be kept beside what the ledger has, a line each.
        conflicts: Vec<String>,
    }
    /// What was found where a partition was held against the ledger.
    Reconciled {
        /// When it began.
        ran_at: Timestamp,
        /// Whether everything that is live was compared. Where that takes longer than five seconds it is not.
        complete: bool,
        /// Campaigns that were compared to their end.
        campaigns: u64,
        /// Rows that were compared.
        rows: u64,
        /// How many differences there are, by kind. They were there twice, with a moment between.
        differences: BTreeMap<String, u64>,
        /// The first hundred of them, a line each.
        examples: Vec<String>,
    }
    /// Whether a halt was ended.
    Resumed {
        /// False where it was not halted.
        resumed: bool,
    }
    /// What was given back.
    Released {
        /// Units that can be had again.
        units: u64,
    }
}

impl Client {
    /// All partitions, as the node that answers sees them.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn partitions(&self) -> Result<Partitions, Error> {
        self.json(Call::get("/v1/partitions")).await
    }

    /// A partition with its nodes and its repairs.
    ///
    /// # Errors
    /// `not-found` where there is none of this number; see [`Error`].
    pub async fn partition(&self, number: u16) -> Result<PartitionDetail, Error> {
        self.json(Call::get(path(number, ""))).await
    }

    /// Repairs a partition that has lost something, now: what nodes have not said yet counts as unknown. Once it is
    /// repaired, again finds nothing lost.
    ///
    /// # Errors
    /// `not-for-engine` where partitions lose nothing; see [`Error`].
    pub async fn repair_partition(&self, number: u16) -> Result<Repair, Error> {
        self.json(Call::post(path(number, "/repair")).changing())
            .await
    }

    /// Holds a partition against the ledger, now. Nothing is changed.
    ///
    /// # Errors
    /// `not-for-engine` where the engine is the ledger's own file; see [`Error`].
    pub async fn reconcile_partition(&self, number: u16) -> Result<Reconciled, Error> {
        self.json(Call::post(path(number, "/reconcile")).changing())
            .await
    }

    /// Ends the halt of a partition without a repair: a loss is taken as it is. Again changes nothing.
    ///
    /// # Errors
    /// As [`Client::repair_partition`].
    pub async fn resume_partition(&self, number: u16) -> Result<Resumed, Error> {
        self.json(Call::post(path(number, "/resume")).changing())
            .await
    }

    /// Gives back what repairs have withheld in a partition. Again changes nothing, and gives back none.
    ///
    /// # Errors
    /// As [`Client::repair_partition`].
    pub async fn release_withheld(&self, number: u16) -> Result<Released, Error> {
        self.json(Call::post(path(number, "/release")).changing())
            .await
    }
}

fn path(number: u16, rest: &str) -> String {
    format!("/v1/partitions/{number}{rest}")
}
