//! Partitions as operators see them.

use std::{fmt, str::FromStr, sync::Arc};

use axum::{Json, extract::State};
use qiang_core::{
    event::PartitionId,
    ports::{
        EngineError, NodeSighting, PartitionView, QuarantineCount, RepairRecord, RepairReport,
        RepairState, WithheldRecord,
    },
    reconcile::PartitionFindings,
};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
    words::RepairResult,
};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::ToWire as _,
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

fn partition_body(app: &App, it: PartitionReadiness) -> answers::Partition {
    let (gauges, partition) = (&app.ports.gauges, it.partition);
    let mut counts = gauges.quarantine().into_iter();
    let count = counts.find(|(of, _)| *of == partition);
    let QuarantineCount { refused, waiting } = count.map(|(_, it)| it).unwrap_or_default();
    let mut findings = gauges.reconciliation().into_iter().flatten();
    let findings = findings.find(|it| it.partition == partition);
    answers::Partition {
        partition: partition.0,
        status: it.state.to_wire(),
        reason: it.reason,
        settlement_lag: gauges.lag_in(partition),
        settlement_stuck: gauges.stuck_in(partition),
        refused,
        waiting,
        reconciliation: findings.map(reconciliation_body),
    }
}

fn reconciliation_body(findings: PartitionFindings) -> answers::PartitionReconciliation {
    let differences = findings.differences.into_iter();
    answers::PartitionReconciliation {
        differences: differences
            .map(|(kind, count)| (kind.name().to_owned(), count))
            .collect(),
        ran_at: findings.ran_at.map(|at| at.to_wire()),
        passed_at: findings.passed_at.map(|at| at.to_wire()),
    }
}

fn node_body(it: NodeSighting) -> answers::NodeSighting {
    answers::NodeSighting {
        node: it.node,
        seen_at: it.seen_at.to_wire(),
        term: it.term,
        observed: it.observed,
    }
}

fn repair_record(it: RepairRecord) -> answers::RepairRecord {
    answers::RepairRecord {
        epoch: it.epoch,
        at: it.at.to_wire(),
        lost: (it.lost_to + 1).saturating_sub(it.lost_from),
        unnamed: it.unnamed,
        reason: it.reason,
        upto: it.upto,
    }
}

fn withheld_body(it: WithheldRecord) -> answers::Withheld {
    answers::Withheld {
        epoch: it.epoch,
        campaign: it.campaign.to_wire(),
        units: it.units,
        amount_minor: it.amount_minor,
        released_at: it.released_at.map(|at| at.to_wire()),
    }
}

pub(super) fn repair_body(state: RepairState) -> answers::Repair {
    let (result, report) = match state {
        RepairState::Whole => (RepairResult::Whole, RepairReport::default()),
        RepairState::Waiting => (RepairResult::Waiting, RepairReport::default()),
        RepairState::Repaired(report) => (RepairResult::Repaired, report),
    };
    let conflicts = report.conflicts.iter();
    answers::Repair {
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
    responses((status = 200, body = answers::Partitions), (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<answers::Partitions>, ApiProblem> {
    caller.require(Scope::Admin)?;
    let found = readiness(&app).await.into_iter();
    let partitions = found.map(|it| partition_body(&app, it)).collect();
    let gauges = &app.ports.gauges;
    let (committed, settled) = gauges.positions();
    Ok(Json(answers::Partitions {
        partitions,
        queue_length: gauges.queued() as u64,
        settlement_lag: committed.saturating_sub(settled),
        repairable: app.ports.operator.is_some(),
        upkeep_stuck: gauges.upkeep_stuck(),
    }))
}

/// A partition with its nodes, repairs and withheld units.
#[utoipa::path(get, path = "/v1/partitions/{partition}", tag = "operation",
    operation_id = "getPartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = answers::PartitionDetail), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn get(
    call: ObjectRequest<PartitionNumber>,
) -> Result<Json<answers::PartitionDetail>, ApiProblem> {
    let found = call.found().await?;
    let (app, partition) = (&call.app, call.id.0);
    let ledger = &app.ports.ledger;
    let view = match &app.ports.operator {
        Some(operator) => operator.view(partition).await.map_err(operator_problem)?,
        None => PartitionView::default(),
    };
    let repairs = ledger.repairs(partition, REPAIRS_SHOWN).await?.into_iter();
    let withheld = ledger.withheld(partition).await?.into_iter();
    Ok(Json(answers::PartitionDetail {
        partition: partition_body(app, found),
        settled: ledger.settled(partition).await?,
        engine: view.state,
        nodes: view.nodes.into_iter().map(node_body).collect(),
        repairs: repairs.map(repair_record).collect(),
        withheld: withheld.map(withheld_body).collect(),
    }))
}
