//! Whether the service lives, whether it can grant, and what it measures.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{app::App, gauges::Gauges};

/// Whether grants can be made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadyBody {
    /// ready or not_ready.
    status: &'static str,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Claims and commands that wait for the engine.
    queue_length: usize,
    /// Log entries that are not yet in the ledger.
    settlement_lag: u64,
    /// Why settlement is stuck, while it is. Granting goes on meanwhile, up to a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_stuck: Option<String>,
    /// What the ledger has quarantined, if anything: it lacks these entries until they are settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_set_aside: Option<QuarantineBody>,
}

/// How many entries are quarantined, over all partitions.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = SetAside)]
pub(crate) struct QuarantineBody {
    /// Entries that the ledger refused.
    refused: u64,
    /// Entries that wait for these.
    waiting: u64,
}

impl QuarantineBody {
    fn of(gauges: &dyn Gauges) -> Option<Self> {
        let counts = gauges.quarantine();
        let sum = counts.iter().fold(Self::default(), |sum, (_, count)| Self {
            refused: sum.refused + count.refused,
            waiting: sum.waiting + count.waiting,
        });
        (sum.refused + sum.waiting > 0).then_some(sum)
    }
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Test-writes every partition and explains failures, at most once a second. Block it publicly.
#[utoipa::path(get, path = "/readyz", tag = "operation", security(()),
    responses((status = 200, body = ReadyBody), (status = 503, body = ReadyBody)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, Json<ReadyBody>) {
    let gauges = &*app.ports.gauges;
    let probed = app.readiness.check(gauges, &*app.ports.engine).await;
    let (committed, settled) = gauges.positions();
    let (code, status) = match probed {
        Ok(()) => (StatusCode::OK, "ready"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
    };
    let body = ReadyBody {
        status,
        queue_length: gauges.queued(),
        settlement_lag: committed.saturating_sub(settled),
        settlement_stuck: gauges.stuck(),
        settlement_set_aside: QuarantineBody::of(gauges),
        reason: probed.err(),
    };
    (code, Json(body))
}

/// Counters and measurements, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    let text = app.metrics.render(&*app.ports.gauges);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
