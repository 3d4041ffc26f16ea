//! Audits that operators start: they prove each invariant again from the rows, while the service runs.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use qiang_core::ports::{ActionKind, AuditCheck, AuditReport, QuarantineCount, THE_SERVICE};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer, ProblemBody, ProblemKind},
        wire::{self, Id, Location, Rfc3339, Text},
    },
    observe::audit_runs::AuditRun,
    resources::operation_log,
};

/// Values of an audit's status.
pub(crate) const STATUSES: [&str; 4] = ["running", "ok", "broken", "failed"];

/// An audit that an operator started.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditBody {
    #[schema(value_type = String, format = Uuid)]
    id: Text<Uuid>,
    /// running; ok: each invariant holds; broken: an invariant does not hold; failed: the rows could not be read to
    /// the end.
    status: &'static str,
    /// User who started it.
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Rfc3339,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Rfc3339>,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Findings of the audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ReportBody>,
}

/// Findings of an audit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditReport)]
struct ReportBody {
    /// Description of the audited ledger or engine.
    subject: String,
    /// Entries in the engine's log that are not settled; absent if no engine was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<u64>,
    /// Entries that the ledger refused.
    refused: u64,
    /// Entries that wait for refused ones.
    waiting: u64,
    /// All checks, in the order in which they ran.
    checks: Vec<CheckBody>,
}

/// Findings of one check.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditCheck)]
struct CheckBody {
    name: &'static str,
    /// Whether no row violates it; absent for a check that does not apply here.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    /// Reason why it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_applicable: Option<&'static str>,
    /// Number of rows that it read.
    examined: u64,
    /// The first violations, one per line.
    offending: Vec<String>,
    /// Number of violations.
    offending_total: u64,
}

/// The last audits of a node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audits)]
pub(crate) struct AuditsBody {
    /// Newest first.
    audits: Vec<AuditBody>,
}

impl AuditBody {
    fn new(audit: AuditRun, with_report: bool) -> Self {
        let ended_at = audit.ended.as_ref().map(|(at, _)| Rfc3339(*at));
        let (status, error, report) = match audit.ended.map(|(_, found)| found) {
            None => (STATUSES[0], None, None),
            Some(Ok(report)) => (STATUSES[if report.ok { 1 } else { 2 }], None, Some(report)),
            Some(Err(error)) => (STATUSES[3], Some(error), None),
        };
        let report = report.filter(|_| with_report);
        Self {
            id: Text(audit.id),
            status,
            actor: audit.by.to_string(),
            started_at: Rfc3339(audit.started_at),
            ended_at,
            error,
            report: report.as_deref().map(ReportBody::new),
        }
    }
}

impl ReportBody {
    fn new(report: &AuditReport) -> Self {
        let QuarantineCount { refused, waiting } = report.quarantine;
        Self {
            subject: report.subject.clone(),
            in_flight: report.in_flight,
            refused,
            waiting,
            checks: report.checks.iter().map(CheckBody::new).collect(),
        }
    }
}

impl CheckBody {
    fn new(check: &AuditCheck) -> Self {
        Self {
            name: check.name,
            ok: check.ok,
            not_applicable: check.not_applicable,
            examined: check.examined,
            offending: check.offending.clone(),
            offending_total: check.offending_total,
        }
    }
}

/// Audits everything that this node works on: proves each invariant again from the rows.
///
/// The rows are read as of one moment, while the service runs. One audit runs at a time; during it, this returns the
/// running one. This node keeps its last eight audits until it stops; other nodes do not have them.
#[utoipa::path(post, path = "/v1/audits", tag = "operation",
    operation_id = "startAudit", security(("bearer" = ["admin"])),
    responses((status = 201, body = AuditBody), (status = 200, description = "An audit is running", body = AuditBody),
        (status = 403, body = ProblemBody), (status = 409, description = "`not-for-engine`", body = ProblemBody),
        NoAnswer))]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<(StatusCode, Location, Json<AuditBody>), ApiProblem> {
    caller.require(Scope::Admin)?;
    let auditor = app.ports.auditor.clone().ok_or_else(|| {
        ApiProblem::new(ProblemKind::NotForEngine, "this node cannot run an audit")
    })?;
    let (audit, fresh) = app.audits.begin(AuditRun {
        id: app.fresh_id(),
        by: caller.user.clone(),
        started_at: app.ports.clock.now(),
        ended: None,
    });
    let id = audit.id;
    if fresh {
        let detail = json!({ "audit": id.to_string() });
        let action = app.action(&caller.user, ActionKind::Audit, THE_SERVICE, &detail);
        if let Err(error) = app.ports.ledger.record(&action).await {
            app.audits.forget(id);
            return Err(error.into());
        }
        operation_log::log(&action);
        let (audits, clock) = (Arc::clone(&app.audits), Arc::clone(&app.ports.clock));
        let auditing = tokio::spawn(async move { auditor.audit().await });
        tokio::spawn(async move {
            let found = auditing.await;
            let found = found.unwrap_or_else(|_| Err("the audit has panicked".to_owned()));
            audits.end(id, clock.now(), found);
        });
    }
    let status = match fresh {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let location = wire::location(status, || format!("/v1/audits/{id}"));
    Ok((status, location, Json(AuditBody::new(audit, true))))
}

/// The last audits of this node, without their findings.
#[utoipa::path(get, path = "/v1/audits", tag = "operation",
    operation_id = "listAudits", security(("bearer" = ["admin"])),
    responses((status = 200, body = AuditsBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<AuditsBody>, ApiProblem> {
    caller.require(Scope::Admin)?;
    let audits = app.audits.list().into_iter();
    let audits = audits.map(|audit| AuditBody::new(audit, false)).collect();
    Ok(Json(AuditsBody { audits }))
}

/// An audit of this node: its status and its findings, with the first violations.
#[utoipa::path(get, path = "/v1/audits/{id}", tag = "operation",
    operation_id = "getAudit", security(("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The audit's id")),
    responses((status = 200, body = AuditBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody)))]
pub(crate) async fn get(call: ObjectRequest<Id>) -> Result<Json<AuditBody>, ApiProblem> {
    call.caller.require(Scope::Admin)?;
    let mut all = call.app.audits.list().into_iter();
    let found = all.find(|it| it.id == call.id.0).ok_or_else(|| {
        let detail = "this node has no such audit; another node may have it";
        ApiProblem::new(ProblemKind::NotFound, detail)
    })?;
    Ok(Json(AuditBody::new(found, true)))
}
