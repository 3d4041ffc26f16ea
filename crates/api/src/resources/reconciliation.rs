//! A partition is held against the ledger because somebody asks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::Json;
use qiang_core::{
    ports::{ActionKind, Ledger, OperatorEngine, Reconciled},
    reconcile::DifferenceKind,
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    extract::Call,
    http::{
        problem::{NoAnswer, Problem, ProblemBody},
        wire::When,
    },
    resources::partitions::PartitionNumber,
};

/// How long it compares at most: less than clients wait for an answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Differences that are told.
const EXAMPLES: usize = 100;

/// What was found where a partition was held against the ledger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reconciled)]
pub(crate) struct ReconciledBody {
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    ran_at: When,
    /// Whether everything that is live was compared. Where that takes longer than five seconds it is not: nodes compare
    /// all of it by and by.
    complete: bool,
    /// Campaigns that were compared to their end.
    campaigns: u64,
    /// Rows that were compared.
    rows: u64,
    /// How many differences there are, by kind. They were there twice, with a moment between.
    differences: BTreeMap<&'static str, u64>,
    /// The first hundred of them, a line each.
    examples: Vec<String>,
}

impl ReconciledBody {
    fn new(ran_at: Timestamp, found: Reconciled) -> Self {
        let count = |kind: DifferenceKind| {
            let of_rows = found.differences.iter().map(|it| it.kind);
            let all = of_rows.chain(found.campaign_differences.iter().map(|it| it.kind));
            (kind.name(), all.filter(|it| *it == kind).count() as u64)
        };
        let campaigns = found.campaign_differences.iter().map(ToString::to_string);
        let rows = found.differences.iter().map(ToString::to_string);
        let examples = campaigns.chain(rows).take(EXAMPLES);
        Self {
            ran_at: When(ran_at),
            complete: found.is_complete,
            campaigns: found.campaigns,
            rows: found.rows,
            differences: DifferenceKind::FAULTS.map(count).into(),
            examples: examples.collect(),
        }
    }
}

/// Holds what is live of a partition against the ledger, at once, and says where they differ. Nothing is changed.
///
/// Nodes on Redis do so all the time, by and by: `reconciliation` of a partition says what that has found.
#[utoipa::path(post, path = "/v1/partitions/{partition}/reconcile", tag = "operation",
    operation_id = "reconcilePartition", security(("bearer" = ["admin"])),
    params(("partition" = u16, Path, description = "The partition's number")),
    responses((status = 200, body = ReconciledBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody), (status = 409, description = "`not-for-engine`", body = ProblemBody),
        NoAnswer))]
pub(crate) async fn reconcile(
    call: Call<PartitionNumber>,
) -> Result<Json<ReconciledBody>, Problem> {
    let ran_at = call.app.ports.clock.now();
    let reconcile = |engine: Arc<dyn OperatorEngine>, ledger: Arc<dyn Ledger>, partition| async move {
        engine.reconcile(partition, &*ledger, TIME_MAX).await
    };
    let found = call.operate(ActionKind::Reconcile, reconcile).await?;
    Ok(Json(ReconciledBody::new(ran_at, found)))
}
