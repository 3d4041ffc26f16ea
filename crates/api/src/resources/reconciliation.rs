//! Comparison of a partition with the ledger, at an operator's request.

use std::{sync::Arc, time::Duration};

use axum::Json;
use qiang_core::{
    ports::{ActionKind, Ledger, OperatorEngine, ReconcileResult},
    reconcile::DifferenceKind,
    time::Timestamp,
};
use qiang_wire::{answers::Reconciled, problem::Problem};

use crate::{
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::ToWire as _,
    },
    resources::partitions::PartitionNumber,
};

/// Time limit of the comparison, below the timeout of clients.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of differences in an answer.
const EXAMPLES: usize = 100;

fn reconciled(ran_at: Timestamp, found: ReconcileResult) -> Reconciled {
    let count = |kind: DifferenceKind| {
        let of_rows = found.differences.iter().map(|it| it.kind);
        let all = of_rows.chain(found.campaign_differences.iter().map(|it| it.kind));
        (
            kind.name().to_owned(),
            all.filter(|it| *it == kind).count() as u64,
        )
    };
    let campaigns = found.campaign_differences.iter().map(ToString::to_string);
    let rows = found.differences.iter().map(ToString::to_string);
    let examples = campaigns.chain(rows).take(EXAMPLES);
    Reconciled {
        ran_at: ran_at.to_wire(),
        complete: found.is_complete,
        campaigns: found.campaigns,
        rows: found.rows,
        differences: DifferenceKind::FAULTS.map(count).into(),
        examples: examples.collect(),
    }
}

/// Compares the live campaigns of a partition with the ledger at once, and reports the differences. Nothing is
/// changed.
///
/// Nodes on Redis do this continuously: `reconciliation` of a partition has their findings.
#[utoipa::path(post, path = "/v1/partitions/{partition}/reconcile", tag = "operation",
    operation_id = "reconcilePartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = Reconciled), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, description = "`not-for-engine`", body = Problem),
        NoAnswer))]
pub(crate) async fn reconcile(
    call: ObjectRequest<PartitionNumber>,
) -> Result<Json<Reconciled>, ApiProblem> {
    let ran_at = call.app.ports.clock.now();
    let reconcile = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.reconcile(partition, &*ledger, TIME_MAX).await
    };
    let found = call.operate(ActionKind::Reconcile, reconcile).await?;
    Ok(Json(reconciled(ran_at, found)))
}
