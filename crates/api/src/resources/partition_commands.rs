//! Operators' commands for a partition that has halted.

use std::sync::Arc;

use axum::response::Response;
use qiang_core::{
    event::PartitionId,
    ports::{
        ActionKind, EngineError, Ledger, OperatorEngine, ReconcileResult, RepairState, THE_SERVICE,
    },
};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    extract::ObjectRequest,
    http::problem::{ApiProblem, NoAnswer},
    resources::{
        operation_log,
        partitions::{PartitionNumber, operator_problem, repair_body},
    },
};

/// Detail for an engine without repairs.
const NOTHING_TO_REPAIR: &str =
    "the embedded engine loses nothing that could be repaired: it refuses to start instead";

/// Result of an operator's command.
pub(crate) trait OperatorResult: Send + 'static {
    /// Whether the operation log keeps the command. A command that changed nothing is removed.
    fn is_recorded(&self) -> bool;
}

impl OperatorResult for RepairState {
    fn is_recorded(&self) -> bool {
        matches!(self, Self::Repaired(_))
    }
}

/// Whether a halt was ended.
impl OperatorResult for bool {
    fn is_recorded(&self) -> bool {
        *self
    }
}

/// Released units.
impl OperatorResult for u64 {
    fn is_recorded(&self) -> bool {
        *self > 0
    }
}

/// A comparison changes nothing, and is recorded because it costs time.
impl OperatorResult for ReconcileResult {
    fn is_recorded(&self) -> bool {
        true
    }
}

/// Whether a failed command has certainly changed nothing. A repair or a resumption may fail after some of its steps.
fn has_changed_nothing(kind: ActionKind, error: &EngineError) -> bool {
    let has_steps = matches!(kind, ActionKind::Repair | ActionKind::Resume);
    !has_steps && !matches!(error, EngineError::Uncertain { .. })
}

impl ObjectRequest<PartitionNumber> {
    /// Checks the partition and returns the engine that carries out operators' commands.
    async fn operator(&self) -> Result<Arc<dyn OperatorEngine>, ApiProblem> {
        self.found().await?;
        let operator = self.app.ports.operator.clone();
        operator.ok_or_else(|| ApiProblem::new(ProblemKind::NotForEngine, NOTHING_TO_REPAIR))
    }

    /// Records the action and runs an operator's command to its end, even if the client disconnects. Removes the record
    /// of a command that changed nothing.
    pub(crate) async fn operate<T: OperatorResult, F>(
        &self,
        kind: ActionKind,
        act: impl FnOnce(Arc<dyn OperatorEngine>, Arc<dyn Ledger>, PartitionId) -> F,
    ) -> Result<T, ApiProblem>
    where
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let operator = self.operator().await?;
        let detail = json!({ "partition": self.id.0.0 });
        let action = self
            .app
            .action(&self.caller.user, kind, THE_SERVICE, &detail);
        let ledger = Arc::clone(&self.app.ports.ledger);
        ledger.record(&action).await?;
        let (id, acting) = (action.id, act(operator, Arc::clone(&ledger), self.id.0));
        let done = tokio::spawn(async move {
            let done = acting.await;
            let is_recorded = match &done {
                Ok(done) => done.is_recorded(),
                Err(error) => !has_changed_nothing(kind, error),
            };
            if !is_recorded {
                operation_log::strike(&*ledger, id).await;
            }
            (done, is_recorded)
        });
        let done = done.await;
        let (done, is_recorded) =
            done.map_err(|_| ApiProblem::internal("an operator's task has panicked"))?;
        let done = done.map_err(operator_problem)?;
        if is_recorded {
            operation_log::log(&action);
        }
        Ok(done)
    }

    /// Like [`operate`](Self::operate), under the request's key. A retry of the key does not act on a later halt.
    async fn operate_once<T: OperatorResult, B: Serialize + Send + 'static, F>(
        self,
        (kind, route): (ActionKind, &str),
        act: impl FnOnce(Arc<dyn OperatorEngine>, Arc<dyn Ledger>, PartitionId) -> F + Send + 'static,
        body: impl FnOnce(T) -> B + Send + 'static,
    ) -> Result<Response, ApiProblem>
    where
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        self.operator().await?;
        let (app, used) = (Arc::clone(&self.app), self.key_use(route, &()));
        let run = async move { self.operate(kind, act).await.map(body) };
        app.once_only(used, run).await
    }
}

/// Repairs a partition after data loss, without waiting for missing node reports.
///
/// If nothing was lost, nothing is done. Nodes repair automatically, unless they are configured not to.
#[utoipa::path(post, path = "/v1/partitions/{partition}/repair", tag = "operation",
    operation_id = "repairPartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = answers::Repair), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, description = "`not-for-engine`, or \
        `key-pending`: an earlier request with this key broke off", body = Problem),
        NoAnswer))]
pub(crate) async fn repair(call: ObjectRequest<PartitionNumber>) -> Result<Response, ApiProblem> {
    let repair = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.repair(partition, &*ledger, true).await
    };
    let route = "POST /v1/partitions/{partition}/repair";
    call.operate_once((ActionKind::Repair, route), repair, repair_body)
        .await
}

/// Ends the halt of a partition without a repair.
///
/// This accepts the loss: a user whose answer was lost does not get it back. Repair the partition instead if the
/// ledger is available.
#[utoipa::path(post, path = "/v1/partitions/{partition}/resume", tag = "operation",
    operation_id = "resumePartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = answers::Resumed), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, description = "`not-for-engine`, or \
        `key-pending`: an earlier request with this key broke off", body = Problem),
        NoAnswer))]
pub(crate) async fn resume(call: ObjectRequest<PartitionNumber>) -> Result<Response, ApiProblem> {
    let resume = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.resume(partition, &*ledger).await
    };
    let route = "POST /v1/partitions/{partition}/resume";
    let body = |resumed| answers::Resumed { resumed };
    call.operate_once((ActionKind::Resume, route), resume, body)
        .await
}

/// Releases the units that repairs have withheld in a partition.
///
/// Use it only if the users who had received them shall not get them.
#[utoipa::path(post, path = "/v1/partitions/{partition}/release-withheld", tag = "operation",
    operation_id = "releaseWithheld", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = answers::Released), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, description = "`not-for-engine`, or \
        `key-pending`: an earlier request with this key broke off", body = Problem),
        NoAnswer))]
pub(crate) async fn release(call: ObjectRequest<PartitionNumber>) -> Result<Response, ApiProblem> {
    let release = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.give_back(partition, &*ledger).await
    };
    let route = "POST /v1/partitions/{partition}/release-withheld";
    let body = |units| answers::Released { units };
    call.operate_once((ActionKind::Release, route), release, body)
        .await
}
