//! Audits that operators start: they prove each invariant again from the rows, while the service runs.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use qiang_core::ports::{ActionKind, AuditCheck, AuditReport, QuarantineCount, THE_SERVICE};
use qiang_wire::{
    answers::{self, NodeAudit},
    lists::AuditList,
    problem::{Problem, ProblemKind},
    words::AuditStatus,
};
use serde_json::json;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::{self, Id, Location, ToWire as _},
    },
    observe::audit_runs::AuditRun,
    resources::operation_log,
};

fn audit_body(audit: AuditRun, with_report: bool) -> NodeAudit {
    let ended_at = audit.ended.as_ref().map(|(at, _)| at.to_wire());
    let (status, error, report) = match audit.ended.map(|(_, found)| found) {
        None => (AuditStatus::Running, None, None),
        Some(Ok(report)) if report.ok => (AuditStatus::Ok, None, Some(report)),
        Some(Ok(report)) => (AuditStatus::Broken, None, Some(report)),
        Some(Err(error)) => (AuditStatus::Failed, Some(error), None),
    };
    let report = report.filter(|_| with_report);
    NodeAudit {
        id: audit.id.to_wire(),
        status,
        actor: audit.by.to_string(),
        started_at: audit.started_at.to_wire(),
        ended_at,
        error,
        report: report.as_deref().map(report_body),
    }
}

fn report_body(report: &AuditReport) -> answers::AuditReport {
    let QuarantineCount { refused, waiting } = report.quarantine;
    answers::AuditReport {
        subject: report.subject.clone(),
        in_flight: report.in_flight,
        refused,
        waiting,
        checks: report.checks.iter().map(check_body).collect(),
    }
}

fn check_body(check: &AuditCheck) -> answers::AuditCheck {
    answers::AuditCheck {
        name: check.name.to_owned(),
        ok: check.ok,
        not_applicable: check.not_applicable.map(str::to_owned),
        examined: check.examined,
        offending: check.offending.clone(),
        offending_total: check.offending_total,
        remedy: check.remedy.map(str::to_owned),
    }
}

/// Audits everything that this node works on: proves each invariant again from the rows.
///
/// The rows are read as of one moment, while the service runs. One audit runs at a time; during it, this returns the
/// running one. This node keeps its last eight audits until it stops; other nodes do not have them.
#[utoipa::path(post, path = "/v1/audits", tag = "operation",
    operation_id = "startAudit", security(("bearer" = ["admin"])),
    responses((status = 201, body = NodeAudit), (status = 200, description = "An audit is running", body = NodeAudit),
        (status = 403, body = Problem), (status = 409, description = "`not-for-engine`", body = Problem),
        NoAnswer))]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<(StatusCode, Location, Json<NodeAudit>), ApiProblem> {
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
    Ok((status, location, Json(audit_body(audit, true))))
}

/// The last audits of this node, without their findings.
#[utoipa::path(get, path = "/v1/audits", tag = "operation",
    operation_id = "listAudits", security(("bearer" = ["admin"])),
    responses((status = 200, body = AuditList), (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<AuditList>, ApiProblem> {
    caller.require(Scope::Admin)?;
    let audits = app.audits.list().into_iter();
    let audits = audits.map(|audit| audit_body(audit, false)).collect();
    Ok(Json(AuditList::whole(audits)))
}

/// An audit of this node: its status and its findings, with the first violations.
#[utoipa::path(get, path = "/v1/audits/{id}", tag = "operation",
    operation_id = "getAudit", security(("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The audit's id")),
    responses((status = 200, body = NodeAudit), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn get(call: ObjectRequest<Id>) -> Result<Json<NodeAudit>, ApiProblem> {
    call.caller.require(Scope::Admin)?;
    let mut all = call.app.audits.list().into_iter();
    let found = all.find(|it| it.id == call.id.0).ok_or_else(|| {
        let detail = "this node has no such audit; another node may have it";
        ApiProblem::new(ProblemKind::NotFound, detail)
    })?;
    Ok(Json(audit_body(found, true)))
}
