//! Comparison of a partition with the ledger, at an operator's request.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::Json;
use qiang_core::{
    ports::{ActionKind, Ledger, OperatorEngine, ReconcileResult},
    reconcile::DifferenceKind,
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    extract::ObjectRequest,
    http::{
        problem::{ApiProblem, NoAnswer, ProblemBody},
        wire::Rfc3339,
    },
    resources::partitions::PartitionNumber,
};

/// Time limit of the comparison, below the timeout of clients.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of differences in an answer.
const EXAMPLES: usize = 100;

/// Result of comparing a partition with the ledger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reconciled)]
pub(crate) struct ReconciledBody {
    /// Time at which it began.
    #[schema(value_type = String, format = DateTime)]
    ran_at: Rfc3339,
    /// Whether all live campaigns were compared. False if that takes longer than five seconds: nodes compare all of
    /// them over time.
    complete: bool,
    /// Campaigns that were compared completely.
    campaigns: u64,
    /// Rows that were compared.
    rows: u64,
    /// Number of differences by kind. Each was found twice, with a pause between.
    differences: BTreeMap<&'static str, u64>,
    /// The first hundred of them, one per line.
    examples: Vec<String>,
}

impl ReconciledBody {
    fn new(ran_at: Timestamp, found: ReconcileResult) -> Self {
        let count = |kind: DifferenceKind| {
            let of_rows = found.differences.iter().map(|it| it.kind);
            let all = of_rows.chain(found.campaign_differences.iter().map(|it| it.kind));
            (kind.name(), all.filter(|it| *it == kind).count() as u64)
        };
        let campaigns = found.campaign_differences.iter().map(ToString::to_string);
        let rows = found.differences.iter().map(ToString::to_string);
        let examples = campaigns.chain(rows).take(EXAMPLES);
        Self {
            ran_at: Rfc3339(ran_at),
            complete: found.is_complete,
            campaigns: found.campaigns,
            rows: found.rows,
            differences: DifferenceKind::FAULTS.map(count).into(),
            examples: examples.collect(),
        }
    }
}

/// Compares the live campaigns of a partition with the ledger at once, and reports the differences. Nothing is
/// changed.
///
/// Nodes on Redis do this continuously: `reconciliation` of a partition has their findings.
#[utoipa::path(post, path = "/v1/partitions/{partition}/reconcile", tag = "operation",
    operation_id = "reconcilePartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = ReconciledBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody), (status = 409, description = "`not-for-engine`", body = ProblemBody),
        NoAnswer))]
pub(crate) async fn reconcile(
    call: ObjectRequest<PartitionNumber>,
) -> Result<Json<ReconciledBody>, ApiProblem> {
    let ran_at = call.app.ports.clock.now();
    let reconcile = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.reconcile(partition, &*ledger, TIME_MAX).await
    };
    let found = call.operate(ActionKind::Reconcile, reconcile).await?;
    Ok(Json(ReconciledBody::new(ran_at, found)))
}
