//! Health, readiness and metrics of the service.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRef, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::ports::{Clock, Engine, WaitingMonitor, WebhookMonitor};
use qiang_wire::{
    problem::{Problem, ProblemKind},
    words::ReadinessStatus,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    extract::Params,
    http::{problem::ApiProblem, wire::ToWire as _},
    observe::{
        gauges::Gauges,
        metrics::Metrics,
        readiness::{PartitionReadiness, Readiness, ReadinessLevel},
    },
};

/// State of these routes, in a service and in a process that only settles.
#[derive(Clone)]
pub(crate) struct HealthState {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) gauges: Arc<dyn Gauges>,
    /// Engine, in a service.
    pub(crate) engine: Option<Arc<dyn Engine>>,
    /// Figures of the queues, in a service; and the clock.
    pub(crate) waiting: Option<(Arc<WaitingMonitor>, Arc<dyn Clock>)>,
    /// Figures of webhooks, in a process that sends their events.
    pub(crate) webhooks: Option<Arc<WebhookMonitor>>,
}

impl FromRef<Arc<App>> for HealthState {
    fn from_ref(app: &Arc<App>) -> Self {
        Self {
            metrics: Arc::clone(&app.metrics),
            readiness: Arc::clone(&app.readiness),
            gauges: Arc::clone(&app.ports.gauges),
            engine: Some(Arc::clone(&app.ports.engine)),
            waiting: Some((Arc::clone(&app.ports.waiting), Arc::clone(&app.ports.clock))),
            webhooks: (app.ports.webhooks.as_ref()).map(|it| Arc::clone(&it.monitor)),
        }
    }
}

/// Readiness to grant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadyBody {
    /// ready; degraded: something is missing or a partition grants nothing; not_ready: no partition grants.
    status: ReadinessStatus,
    /// Reason for a status other than ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Partitions that are not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<UnreadyPartitionBody>>)]
    partitions: Vec<UnreadyPartitionBody>,
    /// Claims and commands that wait for the engine.
    queue_length: usize,
    /// Log entries that are not yet in the ledger.
    settlement_lag: u64,
    /// Reason why settlement is stuck. Absent if it is not. Grants continue during that time, up to a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_stuck: Option<String>,
    /// Quarantined entries, if any. The ledger lacks them until they are settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined_entries: Option<QuarantineBody>,
    /// Overdue work that is retried, if any: campaigns that are not open, queues that are not decided, packets that
    /// are claimed but not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    upkeep_stuck: Option<String>,
    /// Campaigns that repairs took out of service, if any: the first 20. Their claims are refused, and all others are
    /// served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>)]
    campaigns_out_of_service: Vec<String>,
    /// Seconds by which the clock that opens and ends campaigns is ahead of this machine's. Absent if they differ by
    /// one second or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_seconds: Option<f64>,
}

/// A larger clock difference is reported. The alert `QiangClock` uses the same limit.
const CLOCK_OFFSET_SECONDS_MAX: f64 = 1.0;

/// Campaigns out of service that are named. `qiang_campaigns_out_of_service` counts all.
const OUT_OF_SERVICE_MAX: usize = 20;

/// A partition that is not ready.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PartitionReadiness)]
pub(crate) struct UnreadyPartitionBody {
    /// Number of the partition.
    partition: u16,
    /// degraded: something that some grants need is missing, or memory for new ones, while all else works; not_ready:
    /// nothing is served.
    status: ReadinessStatus,
    /// Reason of the status.
    reason: String,
}

impl UnreadyPartitionBody {
    fn of(it: &PartitionReadiness) -> Option<Self> {
        Some(Self {
            partition: it.partition.0,
            status: it.state.to_wire(),
            reason: it.reason.clone()?,
        })
    }
}

/// Filter of readiness.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadyQuery {
    /// Number of the only partition to report.
    #[param(maximum = 65535)]
    partition: Option<u16>,
}

/// Quarantined entries of all partitions.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = SetAside)]
pub(crate) struct QuarantineBody {
    /// Entries that the ledger refused.
    refused: u64,
    /// Entries that wait for refused ones.
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

/// Reports that the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()),
    operation_id = "checkHealth",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Test-writes each partition, at most once a second. The status is 200 while any partition, or the requested one,
/// grants.
///
/// The answer lists the partitions that are not ready, with reasons. It is also served at `admin.listen`.
#[utoipa::path(get, path = "/readyz", tag = "operation", security(()), params(ReadyQuery),
    operation_id = "checkReadiness",
    responses((status = 200, body = ReadyBody), (status = 503, body = ReadyBody),
        (status = 404, description = "There is no such partition", body = Problem)))]
pub(crate) async fn readyz(
    State(operation): State<HealthState>,
    Params(query): Params<ReadyQuery>,
) -> Result<(StatusCode, Json<ReadyBody>), ApiProblem> {
    let gauges = &*operation.gauges;
    let engine = operation.engine.as_deref();
    let (state, reason, partitions) = match operation.readiness.check(gauges, engine).await {
        Err(reason) => (ReadinessLevel::NotReady, Some(reason), Vec::new()),
        Ok(all) => {
            let wanted =
                |it: &PartitionReadiness| query.partition.is_none_or(|n| it.partition.0 == n);
            let partitions: Vec<_> = all.into_iter().filter(wanted).collect();
            let reason = partitions.iter().find_map(|it| it.reason.clone());
            (
                overall(&partitions).ok_or_else(unknown)?,
                reason,
                partitions,
            )
        }
    };
    let code = match state {
        ReadinessLevel::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let (committed, settled) = gauges.positions();
    let body = ReadyBody {
        status: state.to_wire(),
        reason,
        partitions: partitions
            .iter()
            .filter_map(UnreadyPartitionBody::of)
            .collect(),
        queue_length: gauges.queued(),
        settlement_lag: committed.saturating_sub(settled),
        settlement_stuck: gauges.stuck(),
        quarantined_entries: QuarantineBody::of(gauges),
        upkeep_stuck: gauges.upkeep_stuck(),
        campaigns_out_of_service: {
            let campaigns = gauges.campaigns_out_of_service().into_iter();
            let first = campaigns.take(OUT_OF_SERVICE_MAX);
            first.map(|id| id.to_string()).collect()
        },
        clock_offset_seconds: clock_offset_seconds(gauges),
    };
    Ok((code, Json(body)))
}

fn clock_offset_seconds(gauges: &dyn Gauges) -> Option<f64> {
    let offset = gauges.clock_offset_seconds();
    offset.filter(|offset| offset.abs() > CLOCK_OFFSET_SECONDS_MAX)
}

/// State of all partitions together: ready or degraded while any grants; `None` without partitions.
fn overall(partitions: &[PartitionReadiness]) -> Option<ReadinessLevel> {
    let states = || partitions.iter().map(|it| it.state);
    Some(match (states().max()?, states().min()?) {
        (ReadinessLevel::NotReady, _) => ReadinessLevel::NotReady,
        (_, ReadinessLevel::Ready) => ReadinessLevel::Ready,
        _ => ReadinessLevel::Degraded,
    })
}

fn unknown() -> ApiProblem {
    ApiProblem::new(ProblemKind::NotFound, "there is no such partition")
}

/// Metrics for Prometheus.
///
/// They are served at `admin.listen`.
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()),
    operation_id = "readMetrics",
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = 503, description = "`overloaded`: the node answered too many of these in a short time",
            body = Problem)))]
pub(crate) async fn metrics(State(operation): State<HealthState>) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    if let Some((waiting, clock)) = &operation.waiting {
        operation.metrics.show_waiting(waiting, clock.now());
        if let Some(webhooks) = &operation.webhooks {
            operation.metrics.show_webhooks(webhooks, clock.now());
        }
    }
    let text = operation.metrics.render(&*operation.gauges);
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
