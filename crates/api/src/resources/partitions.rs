//! Partitions as operators see them.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use axum::{Json, extract::State};
use qiang_core::{
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{
        EngineError, NodeSighting, PartitionView, QuarantineCount, RepairRecord, RepairReport,
        RepairState, WithheldRecord,
    },
    reconcile::PartitionFindings,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer, ProblemBody, ProblemKind},
        wire::{Rfc3339, Text},
    },
    observe::readiness::{PartitionReadiness, ReadinessLevel},
};

/// Number of repairs shown, newest first.
const REPAIRS_SHOWN: u32 = 20;

/// A partition's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionNumber(pub(super) PartitionId);

impl FromStr for PartitionNumber {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        number(text)
            .map(Self)
            .ok_or("a partition is a number from 0 to 65535")
    }
}

impl fmt::Display for PartitionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}

/// Parses a partition's number; only the canonical decimal form is valid.
pub(crate) fn number(text: &str) -> Option<PartitionId> {
    let number: u16 = text.parse().ok()?;
    (number.to_string() == text).then_some(PartitionId(number))
}

/// All partitions, as this node sees them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Partitions)]
pub(crate) struct PartitionsBody {
    partitions: Vec<PartitionStatusBody>,
    /// Claims and commands that wait for the engine.
    queue_length: usize,
    /// Log entries that are not yet in the ledger.
    settlement_lag: u64,
    /// Whether partitions of this engine may lose data, and can be repaired and resumed.
    repairable: bool,
    /// Overdue work that this node retries, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    upkeep_stuck: Option<String>,
}

/// A partition, as this node sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Partition)]
struct PartitionStatusBody {
    /// Number of the partition.
    partition: u16,
    /// Readiness of the partition.
    status: &'static str,
    /// Reason for a status other than ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Log entries of the partition that are not yet in the ledger. Absent if the lag is not known per partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_lag: Option<u64>,
    /// Reason why its settlement is stuck. Absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_stuck: Option<String>,
    /// Entries of the partition that the ledger refused, as of the last count.
    refused: u64,
    /// Entries of the partition that wait for refused ones.
    waiting: u64,
    /// Differences found between engine and ledger. Absent if another process reconciles, or none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    reconciliation: Option<ReconciliationBody>,
}

/// Result of comparing engine and ledger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PartitionReconciliation)]
struct ReconciliationBody {
    /// Number of differences by kind.
    differences: BTreeMap<&'static str, u64>,
    /// Time of the last comparison of rows. Absent if there was none, for example because no campaign is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ran_at: Option<Rfc3339>,
    /// Time at which all live campaigns had been compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    passed_at: Option<Rfc3339>,
}

/// A partition with its nodes and its repairs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PartitionDetail)]
pub(crate) struct DetailBody {
    #[serde(flatten)]
    partition: PartitionStatusBody,
    /// Position of the last entry in the ledger.
    settled: Seq,
    /// Engine state of the partition, as texts. Empty if the engine has none.
    engine: BTreeMap<String, String>,
    /// Nodes that the partition has seen. Empty if the engine runs in one process.
    nodes: Vec<NodeBody>,
    /// Last repairs, newest first, from the ledger.
    repairs: Vec<RepairRecordBody>,
    /// Units that repairs have withheld, from the ledger.
    withheld: Vec<WithheldBody>,
}

/// A node as a partition has seen it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeSighting)]
struct NodeBody {
    node: String,
    /// Time of its last report, by the engine's clock.
    #[schema(value_type = String, format = DateTime)]
    seen_at: Rfc3339,
    /// Leadership term of its last report.
    term: u64,
    /// Position of the last entry that it observed.
    observed: Seq,
}

/// A repair as the ledger has it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RepairRecord)]
struct RepairRecordBody {
    /// Epoch that the repair began.
    epoch: String,
    /// Time at which it began.
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// Number of lost entries, as far as any node had observed them.
    lost: u64,
    /// Number of lost entries without known content.
    unnamed: u64,
    /// Reason of the halt.
    reason: String,
    /// Position of the last log entry after the repair. Absent until it is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    upto: Option<Seq>,
}

/// Units of a campaign that a repair has withheld.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Withheld)]
struct WithheldBody {
    /// Epoch of the repair.
    epoch: String,
    #[schema(value_type = String, format = Uuid)]
    campaign: Text<CampaignId>,
    units: u64,
    /// Value of the units in minor units, if they are shares.
    amount_minor: i64,
    /// Time at which they were restocked or returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    released_at: Option<Rfc3339>,
}

/// Result of a repair.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Repair)]
pub(crate) struct RepairBody {
    /// whole: no data was lost; waiting: another process repairs it; repaired.
    result: &'static str,
    /// Campaigns that were checked.
    campaigns: u64,
    /// Rows that the engine had lost and has again.
    restored: u64,
    /// Entries that were appended because neither the log nor the ledger had them.
    appended: u64,
    /// Lost entries without known content.
    unnamed: u64,
    /// Units that are withheld.
    withheld: u64,
    /// Campaigns that were taken out of service because the ledger cannot read them.
    out_of_service: u64,
    /// Entries that conflict with the ledger, one per line.
    conflicts: Vec<String>,
}

/// Result of resuming a partition.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Resumed)]
pub(crate) struct ResumeBody {
    /// Whether a halt was ended; false if the partition was not halted.
    pub(super) resumed: bool,
}

/// Result of releasing withheld units.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Released)]
pub(crate) struct ReleaseBody {
    /// Units that are available again.
    pub(super) units: u64,
}

impl PartitionStatusBody {
    fn new(app: &App, it: PartitionReadiness) -> Self {
        let (gauges, partition) = (&app.ports.gauges, it.partition);
        let mut counts = gauges.quarantine().into_iter();
        let count = counts.find(|(of, _)| *of == partition);
        let QuarantineCount { refused, waiting } = count.map(|(_, it)| it).unwrap_or_default();
        let mut findings = gauges.reconciliation().into_iter().flatten();
        let findings = findings.find(|it| it.partition == partition);
        Self {
            partition: partition.0,
            status: it.state.name(),
            reason: it.reason,
            settlement_lag: gauges.lag_in(partition),
            settlement_stuck: gauges.stuck_in(partition),
            refused,
            waiting,
            reconciliation: findings.map(ReconciliationBody::new),
        }
    }
}

impl ReconciliationBody {
    fn new(findings: PartitionFindings) -> Self {
        let differences = findings.differences.into_iter();
        Self {
            differences: differences
                .map(|(kind, count)| (kind.name(), count))
                .collect(),
            ran_at: findings.ran_at.map(Rfc3339),
            passed_at: findings.passed_at.map(Rfc3339),
        }
    }
}

impl From<NodeSighting> for NodeBody {
    fn from(it: NodeSighting) -> Self {
        Self {
            node: it.node,
            seen_at: Rfc3339(it.seen_at),
            term: it.term,
            observed: it.observed,
        }
    }
}

impl From<RepairRecord> for RepairRecordBody {
    fn from(it: RepairRecord) -> Self {
        Self {
            epoch: it.epoch,
            at: Rfc3339(it.at),
            lost: (it.lost_to + 1).saturating_sub(it.lost_from),
            unnamed: it.unnamed,
            reason: it.reason,
            upto: it.upto,
        }
    }
}

impl From<WithheldRecord> for WithheldBody {
    fn from(it: WithheldRecord) -> Self {
        Self {
            epoch: it.epoch,
            campaign: Text(it.campaign),
            units: it.units,
            amount_minor: it.amount_minor,
            released_at: it.released_at.map(Rfc3339),
        }
    }
}

impl RepairBody {
    pub(super) fn new(state: RepairState) -> Self {
        let (result, report) = match state {
            RepairState::Whole => (RESULTS[0], RepairReport::default()),
            RepairState::Waiting => (RESULTS[1], RepairReport::default()),
            RepairState::Repaired(report) => (RESULTS[2], report),
        };
        let conflicts = report.conflicts.iter();
        Self {
            result,
            campaigns: report.campaigns,
            restored: report.restored,
            appended: report.appended,
            unnamed: report.unnamed,
            withheld: report.withheld,
            out_of_service: report.out_of_service,
            conflicts: conflicts.map(ToString::to_string).collect(),
        }
    }
}

/// Results of a repair.
pub(crate) const RESULTS: [&str; 3] = ["whole", "waiting", "repaired"];

/// Readiness of each partition. If it cannot be checked, none is ready.
async fn readiness(app: &App) -> Vec<PartitionReadiness> {
    let (gauges, engine) = (&*app.ports.gauges, &*app.ports.engine);
    match app.readiness.check(gauges, Some(engine)).await {
        Ok(found) => found,
        Err(reason) => {
            let all = gauges.partitions().into_iter();
            let stopped = all.map(|(partition, _)| PartitionReadiness {
                partition,
                state: ReadinessLevel::NotReady,
                reason: Some(reason.clone()),
            });
            stopped.collect()
        }
    }
}

impl ObjectRequest<PartitionNumber> {
    /// Readiness of the partition; a problem if it does not exist.
    pub(super) async fn found(&self) -> Result<PartitionReadiness, ApiProblem> {
        self.caller.require(Scope::Admin)?;
        let mut all = readiness(&self.app).await.into_iter();
        all.find(|it| it.partition == self.id.0)
            .ok_or_else(|| ApiProblem::new(ProblemKind::NotFound, "there is no such partition"))
    }
}

/// Problem for an engine's error, with its reason: an operator who repairs needs it.
pub(super) fn operator_problem(error: EngineError) -> ApiProblem {
    match &error {
        EngineError::Unavailable { reason } => {
            ApiProblem::new(ProblemKind::Unavailable, reason.clone()).caused_by(error.to_string())
        }
        EngineError::Uncertain { reason } => {
            ApiProblem::new(ProblemKind::Uncertain, reason.clone()).caused_by(error.to_string())
        }
        _ => error.into(),
    }
}

/// All partitions with their readiness and lag, as this node sees them.
///
/// Each partition is test-written at most once a second.
#[utoipa::path(get, path = "/v1/partitions", tag = "operation",
    operation_id = "listPartitions", security(("bearer" = ["admin"])),
    responses((status = 200, body = PartitionsBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<PartitionsBody>, ApiProblem> {
    caller.require(Scope::Admin)?;
    let found = readiness(&app).await.into_iter();
    let partitions = found.map(|it| PartitionStatusBody::new(&app, it)).collect();
    let gauges = &app.ports.gauges;
    let (committed, settled) = gauges.positions();
    Ok(Json(PartitionsBody {
        partitions,
        queue_length: gauges.queued(),
        settlement_lag: committed.saturating_sub(settled),
        repairable: app.ports.operator.is_some(),
        upkeep_stuck: gauges.upkeep_stuck(),
    }))
}

/// A partition with its nodes, repairs and withheld units.
#[utoipa::path(get, path = "/v1/partitions/{partition}", tag = "operation",
    operation_id = "getPartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = DetailBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody), NoAnswer))]
pub(crate) async fn get(
    call: ObjectRequest<PartitionNumber>,
) -> Result<Json<DetailBody>, ApiProblem> {
    let found = call.found().await?;
    let (app, partition) = (&call.app, call.id.0);
    let ledger = &app.ports.ledger;
    let view = match &app.ports.operator {
        Some(operator) => operator.view(partition).await.map_err(operator_problem)?,
        None => PartitionView::default(),
    };
    let repairs = ledger.repairs(partition, REPAIRS_SHOWN).await?.into_iter();
    let withheld = ledger.withheld(partition).await?.into_iter();
    Ok(Json(DetailBody {
        partition: PartitionStatusBody::new(app, found),
        settled: ledger.settled(partition).await?,
        engine: view.state,
        nodes: view.nodes.into_iter().map(NodeBody::from).collect(),
        repairs: repairs.map(RepairRecordBody::from).collect(),
        withheld: withheld.map(WithheldBody::from).collect(),
    }))
}
