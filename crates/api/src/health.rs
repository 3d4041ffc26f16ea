//! Whether the service lives, whether it can grant, and what it measures.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::App;
use crate::Gauges;

/// A probe costs a commit: its result serves for this long.
const PROBE_KEPT: Duration = Duration::from_secs(1);
/// A probe that takes longer has failed.
const PROBE_MAX: Duration = Duration::from_secs(3);

/// The last probe, and when it was made. The lock is held while probing, so that callers share one probe.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

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
    /// Log entries that are not yet in the ledger's books.
    settlement_lag: u64,
    /// Why settlement does not go on, while it does not. Granting goes on meanwhile, up to a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_stuck: Option<String>,
    /// What the ledger has set aside, if anything is: the books lack it until it is settled after all.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_set_aside: Option<AsideBody>,
}

/// How many entries are set aside, over all partitions.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = QuarantinedEntry)]
pub(crate) struct AsideBody {
    /// Entries that the ledger refused.
    refused: u64,
    /// Entries that wait for one of these.
    waiting: u64,
}

impl AsideBody {
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

/// Whether a claim could be granted: goes the way of a grant, up to and including a commit, at most once a second.
#[utoipa::path(get, path = "/readyz", tag = "operation", security(()),
    responses((status = 200, body = ReadyBody), (status = 503, body = ReadyBody)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, Json<ReadyBody>) {
    let probed = app.probe().await;
    let (committed, settled) = app.gauges.positions();
    let body = ReadyBody {
        status: if probed.is_ok() { "ready" } else { "not_ready" },
        queue_length: app.gauges.queued(),
        settlement_lag: committed.saturating_sub(settled),
        settlement_stuck: app.gauges.stuck(),
        settlement_set_aside: AsideBody::of(&*app.gauges),
        reason: probed.err(),
    };
    let status = if body.reason.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body))
}

/// Counters and measurements, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = app.metrics.render(&*app.gauges);
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

impl App {
    async fn probe(&self) -> Result<(), String> {
        if let Some(reason) = self.gauges.stopped() {
            return Err(reason);
        }
        let mut last = self.readiness.0.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < PROBE_KEPT
        {
            return result.clone();
        }
        let result = match tokio::time::timeout(PROBE_MAX, self.engine.probe()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the engine does not answer".to_owned()),
        };
        *last = Some((Instant::now(), result.clone()));
        result
    }
}
