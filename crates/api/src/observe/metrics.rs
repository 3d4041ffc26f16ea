//! Metrics of the API for Prometheus. Handles are created once, so a claim needs no lookup.

mod audit;
mod claims;
mod gate;
mod limits;
mod notifications;
mod order_check;
mod payments;
mod process;
mod reconciliation;
mod redis;
#[cfg(feature = "traces")]
mod traces;
mod transport;
mod webhooks;

use std::{sync::OnceLock, time::Duration};

use axum::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use qiang_core::{event::PartitionId, outcome::Outcome, ports::WaitingMonitor, time::Timestamp};
use utoipa::openapi::OpenApi;

pub(crate) use self::notifications::NotificationResult;
pub(crate) use self::order_check::{OrderCheckMetrics, OrderCheckOutcome};
pub use self::process::Build;
#[cfg(feature = "traces")]
pub(crate) use self::traces::SpanMetrics;
pub(crate) use self::{claims::ClaimCounts, payments::ReportedAmount};
use self::{
    claims::ClaimMetrics, gate::GateMetrics, process::ProcessMetrics, transport::TransportMetrics,
};
use crate::observe::{claim_log::ClaimLogCounts, gauges::Gauges};

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);
/// Bounds of the latency histogram, in seconds.
const LATENCY_BUCKETS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];
/// Name and help of a metric that is looked up by its labels.
type Labelled = (&'static str, &'static str);

const SET_ASIDE: Labelled = (
    "qiang_quarantined_entries",
    "Quarantined entries, refused or waiting for a refused one, by partition and state",
);
const PARTITION_READY: Labelled = (
    "qiang_partition_ready",
    "1 while the partition grants; /readyz has the reason if it does not",
);
const CLOCK_OFFSET: Labelled = (
    "qiang_clock_offset_seconds",
    "Seconds by which the deciding clock is ahead: Redis' of this machine's, or the system's of elapsed time",
);
const START_GAP: Labelled = (
    "qiang_start_gap_seconds",
    "Seconds between the newest entry of the engine's file and the start: a downtime, or a clock that is ahead",
);
const DISK_AVAILABLE: Labelled = (
    "qiang_disk_available_bytes",
    "Free bytes on the disk of the data file",
);
const DISK_SIZE: Labelled = ("qiang_disk_size_bytes", "Size of the disk of the data file");
const WAITING: Labelled = (
    "qiang_queue_entries",
    "Entries of the queues that this node decides",
);
const WAITING_OLDEST: Labelled = (
    "qiang_queue_oldest_seconds",
    "Age of the first queue entry whose campaign is neither paused nor yet to start",
);
const WAITING_DECIDED: Labelled = (
    "qiang_queue_decided_total",
    "Queue entries that this node has decided, by outcome",
);
const TOKEN_FILE_FAILING: Labelled = (
    "qiang_token_file_failing",
    "1 while keys or revoked tokens cannot be reloaded, and the previous ones stay in use",
);
const PAYMENT_ACCOUNTS_FAILING: Labelled = (
    "qiang_payment_accounts_failing",
    "1 while the accounts at payment services cannot be reloaded, and the previous ones stay in use",
);
const CERTIFICATE_FAILING: Labelled = (
    "qiang_certificate_failing",
    "1 while the files of certificate and key cannot be used, and the previous certificate stays in use",
);
const CLAIM_LOG: Labelled = (
    "qiang_claim_log_lines_total",
    "Claims of the claim log by result: written, or dropped because the writer was too slow or failed",
);
const CERTIFICATE_EXPIRES: Labelled = (
    "qiang_certificate_expires_timestamp_seconds",
    "End of the first certificate of the served chain that ends",
);
const CONNECTIONS_MAX: Labelled = (
    "qiang_http_connections_max",
    "Limit of open connections of the public listener",
);
const WAITING_LEASES_LOST: Labelled = (
    "qiang_queue_leases_lost_total",
    "Leases of a partition's queues that this node did not renew in time",
);
const WAITING_REBUILT: Labelled = (
    "qiang_queue_rebuilt_total",
    "Calls that found damaged keys of a queue in Redis, and have rebuilt the queue",
);
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A route, as an index into the known templates. 0 is for paths without a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route(usize);

#[cfg(feature = "traces")]
impl Route {
    /// Whether the path has a template.
    pub(crate) fn is_known(self) -> bool {
        self.0 != 0
    }
}

pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    transport: OnceLock<TransportMetrics>,
    routes: Vec<Template>,
    claims: ClaimMetrics,
    gate: Option<GateMetrics>,
    responses: Vec<Counter>,
    auth_failures: Vec<Counter>,
    payments: Vec<Counter>,
    refused_reports: Vec<Counter>,
    notifications: Vec<Counter>,
    queue_length: Gauge,
    campaigns_in_memory: Gauge,
    settlement_lag: Gauge,
    stopped: Gauge,
    stuck: Gauge,
    process: ProcessMetrics,
    pub(crate) connections: Gauge,
}

struct Template {
    method: Method,
    path: String,
    /// Whether the engine decides the request, without a time limit.
    claim: bool,
    latency: Histogram,
}

impl Metrics {
    /// Metrics for the routes of the OpenAPI document.
    pub(crate) fn new(document: &OpenApi) -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&LATENCY_BUCKETS);
        // Only an empty list of buckets is invalid.
        let recorder = builder
            .unwrap_or_else(|_| PrometheusBuilder::new())
            .build_recorder();
        let gauge = |name, text| {
            describe_gauge(&recorder, name, text);
            recorder.register_gauge(&Key::from_name(name), &METADATA)
        };
        let routes = templates(&recorder, document);
        // A process without claims counts none.
        let takes_claims = document
            .paths
            .paths
            .keys()
            .any(|path| is_claim(&Method::POST, path));
        Self {
            routes,
            claims: match takes_claims {
                true => ClaimMetrics::new(&recorder),
                false => ClaimMetrics::default(),
            },
            gate: takes_claims.then(|| GateMetrics::new(&recorder)),
            auth_failures: match takes_claims {
                true => limits::auth_failures(&recorder),
                false => Vec::new(),
            },
            payments: match takes_claims {
                true => payments::counters(&recorder),
                false => Vec::new(),
            },
            refused_reports: match takes_claims {
                true => payments::refusals(&recorder),
                false => Vec::new(),
            },
            notifications: match takes_claims {
                true => notifications::counters(&recorder),
                false => Vec::new(),
            },
            responses: counters(
                &recorder,
                "qiang_http_responses_total",
                "Responses by class of status",
                "class",
                &CLASSES,
            ),
            queue_length: gauge(
                "qiang_engine_queue_length",
                "Claims and commands that wait for the engine",
            ),
            campaigns_in_memory: gauge(
                "qiang_engine_campaigns_in_memory",
                "Campaigns that the embedded engine has in memory; 0 for other engines",
            ),
            settlement_lag: gauge(
                "qiang_settlement_lag_entries",
                "Log entries that are not yet in the ledger",
            ),
            stopped: gauge(
                "qiang_engine_stopped",
                "1 while at least one partition grants nothing; /readyz has the reason",
            ),
            stuck: gauge(
                "qiang_settlement_stuck",
                "1 while settlement of at least one partition is stuck; /readyz has the reason",
            ),
            connections: gauge("qiang_http_connections", "Open connections"),
            process: ProcessMetrics::new(&recorder),
            handle: recorder.handle(),
            transport: OnceLock::new(),
            recorder,
        }
    }

    pub(crate) fn route(&self, method: &Method, path: &str) -> Route {
        let fits = |template: &Template| template.method == *method && fits(&template.path, path);
        Route(self.routes.iter().position(fits).unwrap_or(0))
    }

    pub(crate) fn is_claim(&self, route: Route) -> bool {
        self.routes[route.0].claim
    }

    /// The template of a route, for the log.
    pub(crate) fn template(&self, route: Route) -> &str {
        &self.routes[route.0].path
    }

    pub(crate) fn answered(&self, route: Route, status: StatusCode, took: Duration) {
        let template = &self.routes[route.0];
        template.latency.record(took.as_secs_f64());
        if template.claim {
            self.claims.took(took);
        }
        let class = usize::from(status.as_u16() / 100).wrapping_sub(1);
        if let Some(counter) = self.responses.get(class) {
            counter.increment(1);
        }
    }

    pub(crate) fn claimed(&self, outcome: &Outcome) {
        self.claims.claimed(outcome);
    }

    /// Counts a claim that the gate answered before it was submitted.
    pub(crate) fn answered_by_gate(&self, outcome: &Outcome) {
        self.claimed(outcome);
        if let Some(gate) = &self.gate {
            gate.answered(outcome);
        }
    }

    pub(crate) fn throttled(&self) {
        self.claims.undecided(0);
    }

    pub(crate) fn failed(&self) {
        self.claims.undecided(1);
    }

    /// Counts a claim whose result is unknown: it may be granted.
    pub(crate) fn unconfirmed(&self) {
        self.claims.unconfirmed();
    }

    /// Counts a claim that does not meet a requirement of its campaign.
    pub(crate) fn unmet(&self) {
        self.claims.undecided(2);
    }

    /// Counts a claim that entered a queue.
    pub(crate) fn entered(&self) {
        self.claims.undecided(3);
    }

    /// Counts up to now.
    pub(crate) fn claim_counts(&self, gauges: &dyn Gauges) -> ClaimCounts {
        let by_gate = self.gate.as_ref();
        ClaimCounts {
            by_gate: by_gate.map_or(0, |gate| gate.count(&gauges.gate_answers())),
            ..self.claims.counts()
        }
    }

    pub(crate) fn render(&self, gauges: &dyn Gauges) -> String {
        self.claims.show();
        let (entries, settled) = gauges.positions();
        self.queue_length.set(gauges.queued() as f64);
        let in_memory = gauges.campaigns_in_memory().unwrap_or(0);
        self.campaigns_in_memory.set(in_memory as f64);
        self.settlement_lag
            .set(entries.saturating_sub(settled) as f64);
        if let Some(gate) = &self.gate {
            gate.show(&gauges.gate_answers());
        }
        let partitions = gauges.partitions();
        let stopped =
            gauges.stopped().is_some() || partitions.iter().any(|(_, reason)| reason.is_some());
        self.stopped.set(f64::from(stopped));
        for (partition, reason) in partitions {
            let labels = vec![partition_label(partition)];
            let ready = f64::from(reason.is_none());
            self.set(PARTITION_READY, labels, ready);
        }
        redis::show(self, gauges);
        self.stuck.set(f64::from(gauges.stuck().is_some()));
        if let Some(offset) = gauges.clock_offset_seconds() {
            self.set(CLOCK_OFFSET, Vec::new(), offset);
        }
        if let Some(gap) = gauges.start_gap_seconds() {
            self.set(START_GAP, Vec::new(), gap);
        }
        if let Some(disk) = gauges.disk() {
            self.set(DISK_AVAILABLE, Vec::new(), disk.available as f64);
            self.set(DISK_SIZE, Vec::new(), disk.size as f64);
        }
        if let Some(transport_report) = gauges.transport_report() {
            let make = || TransportMetrics::new(&self.recorder, &transport_report);
            self.transport.get_or_init(make).show(&transport_report);
        }
        for (partition, count) in gauges.quarantine() {
            for (state, count) in [("refused", count.refused), ("waiting", count.waiting)] {
                let labels = vec![partition_label(partition), Label::new("state", state)];
                self.set(SET_ASIDE, labels, count as f64);
            }
        }
        audit::show(self, gauges.last_audit());
        if let Some(reports) = gauges.reconciliation() {
            reconciliation::show(self, &reports);
        }
        self.process.show(&self.recorder);
        self.handle.render()
    }

    /// Shows the figures of queues, in a process that decides them.
    pub(crate) fn show_waiting(&self, waiting: &WaitingMonitor, now: Timestamp) {
        let (count, oldest) = waiting.waiting();
        let oldest_ms = oldest.map_or(0, |at| now.millis_since(at).max(0));
        self.set(WAITING, Vec::new(), count as f64);
        self.set(WAITING_OLDEST, Vec::new(), oldest_ms as f64 / 1_000.0);
        for (word, count) in waiting.decisions() {
            let labels = vec![Label::new("outcome", word)];
            self.count(WAITING_DECIDED, labels, count);
        }
        self.count(WAITING_LEASES_LOST, Vec::new(), waiting.leases_lost());
        self.count(WAITING_REBUILT, Vec::new(), waiting.rebuilt());
    }

    pub(crate) fn show_token_files(&self, failing: bool) {
        self.set(TOKEN_FILE_FAILING, Vec::new(), f64::from(failing));
    }

    pub(crate) fn show_payment_accounts(&self, failing: bool) {
        self.set(PAYMENT_ACCOUNTS_FAILING, Vec::new(), f64::from(failing));
    }

    /// Shows the state of the certificate, and its end if it is known.
    pub(crate) fn show_certificate(&self, failing: bool, expires_at_s: Option<i64>) {
        self.set(CERTIFICATE_FAILING, Vec::new(), f64::from(failing));
        if let Some(at_s) = expires_at_s {
            self.set(CERTIFICATE_EXPIRES, Vec::new(), at_s as f64);
        }
    }

    pub(crate) fn show_claim_log(&self, counts: &ClaimLogCounts) {
        for (result, count) in counts.get() {
            self.count(CLAIM_LOG, vec![Label::new("result", result)], count);
        }
    }

    pub(crate) fn show_connections_max(&self, connections_max: u32) {
        self.set(CONNECTIONS_MAX, Vec::new(), f64::from(connections_max));
    }

    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Sets a gauge that is looked up by its labels.
    fn set(&self, (name, text): Labelled, labels: Vec<Label>, value: f64) {
        describe_gauge(&self.recorder, name, text);
        let key = Key::from_parts(name, labels);
        self.recorder.register_gauge(&key, &METADATA).set(value);
    }

    /// Sets a counter that is looked up by its labels.
    fn count(&self, (name, text): Labelled, labels: Vec<Label>, value: u64) {
        self.recorder
            .describe_counter(name.into(), None, text.into());
        let key = Key::from_parts(name, labels);
        self.recorder
            .register_counter(&key, &METADATA)
            .absolute(value);
    }
}

fn partition_label(partition: PartitionId) -> Label {
    Label::new("partition", partition.0.to_string())
}

fn describe_gauge(recorder: &impl Recorder, name: &'static str, text: &'static str) {
    recorder.describe_gauge(name.into(), None, text.into());
}

/// One counter for each value of a label.
fn counters(
    recorder: &impl Recorder,
    name: &'static str,
    text: &'static str,
    label: &'static str,
    values: &[&'static str],
) -> Vec<Counter> {
    recorder.describe_counter(name.into(), None, text.into());
    let key = |value| Key::from_parts(name, vec![Label::new(label, value)]);
    let counter = |value: &&'static str| recorder.register_counter(&key(*value), &METADATA);
    values.iter().map(counter).collect()
}

/// The routes of the OpenAPI document, those of claims first.
fn templates(recorder: &impl Recorder, document: &OpenApi) -> Vec<Template> {
    let name = "qiang_http_request_duration_seconds";
    let text = "Seconds from a request's head to its response, by route";
    recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
    let mut routes = vec![(Method::POST, "/v1/noop/{id}/claims".to_owned())];
    for (path, item) in &document.paths.paths {
        let gets = item.get.iter().map(|_| Method::GET);
        let methods = gets.chain(item.post.iter().map(|_| Method::POST));
        routes.extend(methods.map(|method| (method, path.clone())));
    }
    routes.sort_by_key(|(method, path)| !is_claim(method, path));
    routes.insert(0, (Method::GET, "other".to_owned()));
    let template = |(method, path): (Method, String)| {
        let labels = vec![
            Label::new("method", method.to_string()),
            Label::new("route", path.clone()),
        ];
        Template {
            claim: is_claim(&method, &path),
            latency: recorder.register_histogram(&Key::from_parts(name, labels), &METADATA),
            method,
            path,
        }
    };
    routes.into_iter().map(template).collect()
}

fn is_claim(method: &Method, path: &str) -> bool {
    *method == Method::POST && (path.ends_with("/{id}/claims") || path == "/v1/sales/{id}/orders")
}

/// Whether a path matches the template, with any text for `{…}`.
fn fits(template: &str, path: &str) -> bool {
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    loop {
        match (template.next(), path.next()) {
            (None, None) => return true,
            (Some(t), Some(p)) if t == p || t.starts_with('{') => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_find_their_template() {
        let metrics = Metrics::new(&crate::router::collected());
        let check = |method: Method, path: &str, template: &str| {
            assert_eq!(
                metrics.routes[metrics.route(&method, path).0].path,
                template,
                "{path}"
            );
        };
        check(
            Method::POST,
            "/v1/red-packets/x/claims",
            "/v1/red-packets/{id}/claims",
        );
        check(
            Method::GET,
            "/v1/red-packets/x/claims",
            "/v1/red-packets/{id}/claims",
        );
        check(Method::POST, "/v1/sales/x/orders", "/v1/sales/{id}/orders");
        check(Method::POST, "/v1/red-packets", "/v1/red-packets");
        check(Method::GET, "/v1/red-packets", "/v1/red-packets");
        check(Method::DELETE, "/v1/red-packets", "other");
        check(Method::GET, "/v1/red-packets/x/claims/y", "other");
        check(Method::GET, "/healthz", "/healthz");
        assert!(metrics.is_claim(metrics.route(&Method::POST, "/v1/sales/x/orders")));
        assert!(!metrics.is_claim(metrics.route(&Method::POST, "/v1/sales")));
        assert!(!metrics.is_claim(metrics.route(&Method::GET, "/v1/red-packets/x/claims")));
    }
}
