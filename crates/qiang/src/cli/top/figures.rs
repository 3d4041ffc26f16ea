//! Figures of a node, computed from two readings of its metrics.

use std::collections::BTreeMap;

use qiang_client::{CampaignId, State};
use serde::Serialize;

use super::exposition::{MetricSample, MetricSamples};

const CLAIMS: &str = "qiang_claims_total";
const GATE: &str = "qiang_gate_answers_total";
const LATENCY: &str = "qiang_http_request_duration_seconds_bucket";

/// Figures that are shown or printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Seconds between the two readings.
    pub(crate) interval_s: f64,
    /// Answered claims per second.
    pub(crate) claims_per_s: f64,
    /// Answered claims per second, by outcome.
    pub(crate) outcomes_per_s: BTreeMap<String, f64>,
    /// Latency of claims; `None` if there were no claims.
    pub(crate) latency_ms: Option<LatencyFigures>,
    /// Share of claims that the gate passed to the engine; `None` if there were no claims.
    pub(crate) gate_pass_ratio: Option<f64>,
    /// Log entries that are not yet in the ledger.
    pub(crate) settlement_lag_entries: u64,
    /// Claims and commands that wait for the engine.
    pub(crate) queue_length: u64,
    /// Queue entries that this node decides.
    pub(crate) queue_entries: u64,
    /// Open connections.
    pub(crate) connections: u64,
    /// At least one partition grants nothing.
    pub(crate) is_stopped: bool,
    /// Settlement of at least one partition makes no progress.
    pub(crate) is_stuck: bool,
    /// Entries that the ledger refused, and entries that wait for them.
    pub(crate) quarantined: u64,
    /// State of each partition.
    pub(crate) partitions: Vec<PartitionFigures>,
    /// Campaigns that are live or paused.
    pub(crate) campaigns: Vec<CampaignFigures>,
    /// Reason why campaigns are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_campaigns: Option<String>,
}

/// Latency of claims in milliseconds: the 50th, 90th and 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct LatencyFigures {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PartitionFigures {
    pub(crate) partition: u32,
    pub(crate) is_ready: bool,
    /// Replicas that grants wait for and that the primary lacks.
    pub(crate) replicas_missing: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CampaignFigures {
    pub(crate) id: CampaignId,
    pub(crate) kind: FigureKind,
    pub(crate) title: String,
    pub(crate) granted_per_s: f64,
    pub(crate) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FigureKind {
    Sale,
    RedPacket,
}

impl Figures {
    /// Figures from two readings that are `seconds` apart.
    pub(super) fn between(before: &MetricSamples, now: &MetricSamples, seconds: f64) -> Self {
        let seconds = seconds.max(0.001);
        let mut outcomes_per_s = BTreeMap::new();
        for sample in now.for_name(CLAIMS) {
            let rate = grown(before, sample) / seconds;
            *outcomes_per_s
                .entry(sample.label("outcome").to_owned())
                .or_insert(0.0) += rate;
        }
        let claims_per_s = outcomes_per_s.values().sum();
        let by_gate: f64 = now.for_name(GATE).map(|sample| grown(before, sample)).sum();
        let claims = claims_per_s * seconds;
        let missing = |partition: &str| {
            let mut samples = now.for_name("qiang_redis_replicas_missing");
            let sample = samples.find(|sample| sample.label("partition") == partition);
            sample.map_or(0, |sample| sample.value().max(0.0) as u32)
        };
        let partition = |sample: &MetricSample| {
            Some(PartitionFigures {
                partition: sample.label("partition").parse().ok()?,
                is_ready: sample.value() > 0.0,
                replicas_missing: missing(sample.label("partition")),
            })
        };
        let mut partitions: Vec<_> = now
            .for_name("qiang_partition_ready")
            .filter_map(partition)
            .collect();
        partitions.sort_by_key(|partition| partition.partition);
        let number = |name| now.sum(name).unwrap_or_default().max(0.0) as u64;
        Self {
            interval_s: seconds,
            claims_per_s,
            outcomes_per_s,
            latency_ms: latency(before, now),
            gate_pass_ratio: (claims > 0.0).then(|| (1.0 - by_gate / claims).clamp(0.0, 1.0)),
            settlement_lag_entries: number("qiang_settlement_lag_entries"),
            queue_length: number("qiang_engine_queue_length"),
            queue_entries: number("qiang_queue_entries"),
            connections: number("qiang_http_connections"),
            is_stopped: number("qiang_engine_stopped") > 0,
            is_stuck: number("qiang_settlement_stuck") > 0,
            quarantined: number("qiang_quarantined_entries"),
            partitions,
            campaigns: Vec::new(),
            no_campaigns: None,
        }
    }

    /// Alarms that need attention, the worst first.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let those = |is: fn(&PartitionFigures) -> bool| {
            let those = self.partitions.iter().filter(|partition| is(partition));
            let numbers: Vec<_> = those.map(|it| it.partition.to_string()).collect();
            numbers.join(", ")
        };
        let down = those(|partition| !partition.is_ready);
        let lacking = those(|partition| partition.replicas_missing > 0);
        let alarms = [
            (!down.is_empty()).then(|| format!("not granting: partition {down}")),
            (self.is_stopped && down.is_empty()).then(|| "engine stopped".to_owned()),
            (!lacking.is_empty()).then(|| format!("replicas missing: partition {lacking}")),
            self.is_stuck.then(|| "settlement stuck".to_owned()),
            (self.quarantined > 0).then(|| format!("{} entries quarantined", self.quarantined)),
        ];
        alarms.into_iter().flatten().collect()
    }
}

/// Growth of a counter. A counter that is smaller than before was reset, and counts from zero.
fn grown(before: &MetricSamples, sample: &MetricSample) -> f64 {
    let (was, is) = (before.same(sample).unwrap_or_default(), sample.value());
    if is < was { is } else { is - was }
}

/// Latency from the buckets of all routes of claims, interpolated as in `histogram_quantile` of Prometheus.
fn latency(before: &MetricSamples, now: &MetricSamples) -> Option<LatencyFigures> {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for sample in now.for_name(LATENCY).filter(|sample| is_claim(sample)) {
        let bound: f64 = sample.label("le").parse().ok()?;
        let count = grown(before, sample);
        match buckets.iter_mut().find(|(other, _)| *other == bound) {
            Some((_, sum)) => *sum += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = buckets.last()?.1;
    let quantile = |part: f64| {
        let rank = part * all;
        let mut below = (0.0, 0.0);
        for (bound, count) in &buckets {
            if *count >= rank && bound.is_finite() {
                let within = (rank - below.1) / (count - below.1).max(f64::MIN_POSITIVE);
                return (below.0 + (bound - below.0) * within) * 1_000.0;
            }
            if bound.is_finite() {
                below = (*bound, *count);
            }
        }
        // The value lies above the last bound.
        below.0 * 1_000.0
    };
    (all > 0.0).then(|| LatencyFigures {
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
    })
}

fn is_claim(sample: &MetricSample) -> bool {
    let route = sample.label("route");
    sample.label("method") == "POST"
        && (route.ends_with("/{id}/claims") || route == "/v1/sales/{id}/orders")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(granted: u32, sold_out: u32, counts: [u32; 3]) -> MetricSamples {
        let [a, b, all] = counts;
        let route = "method=\"POST\",route=\"/v1/red-packets/{id}/claims\"";
        let other = "method=\"GET\",route=\"/v1/red-packets/{id}/claims\"";
        MetricSamples::parse(&format!(
            "qiang_claims_total{{outcome=\"granted\"}} {granted}\n\
             qiang_claims_total{{outcome=\"sold_out\"}} {sold_out}\n\
             qiang_gate_answers_total{{reason=\"sold_out\"}} {sold_out}\n\
             {LATENCY}{{{route},le=\"0.001\"}} {a}\n\
             {LATENCY}{{{route},le=\"0.01\"}} {b}\n\
             {LATENCY}{{{route},le=\"+Inf\"}} {all}\n\
             {LATENCY}{{{other},le=\"+Inf\"}} 1000000\n\
             qiang_partition_ready{{partition=\"10\"}} 0\n\
             qiang_partition_ready{{partition=\"2\"}} 1\n\
             qiang_redis_replicas_missing{{partition=\"10\"}} 0\n\
             qiang_redis_replicas_missing{{partition=\"2\"}} 1\n\
             qiang_quarantined_entries{{partition=\"2\",state=\"refused\"}} 2\n\
             qiang_quarantined_entries{{partition=\"2\",state=\"waiting\"}} 3\n\
             qiang_settlement_lag_entries 7\n"
        ))
    }

    #[test]
    fn rates_and_percentiles_are_of_the_interval() {
        let before = text(100, 1_000, [100, 100, 100]);
        let now = text(110, 1_090, [150, 190, 200]);
        let figures = Figures::between(&before, &now, 2.0);
        assert!((figures.claims_per_s - 50.0).abs() < 1e-9);
        assert!((figures.outcomes_per_s["sold_out"] - 45.0).abs() < 1e-9);
        assert!((figures.gate_pass_ratio.unwrap() - 0.1).abs() < 1e-9);
        let latency = figures.latency_ms.unwrap();
        assert!((latency.p50 - 1.0).abs() < 1e-9, "{latency:?}");
        assert!((latency.p90 - 10.0).abs() < 1e-9, "{latency:?}");
        // Claims above the last bound count as the last bound: their latency is unknown.
        assert!((latency.p99 - 10.0).abs() < 1e-9, "{latency:?}");
        assert_eq!(figures.settlement_lag_entries, 7);
        let partitions: Vec<_> = figures.partitions.iter().map(|it| it.partition).collect();
        assert_eq!(partitions, [2, 10]);
        let alarms = [
            "not granting: partition 10",
            "replicas missing: partition 2",
            "5 entries quarantined",
        ];
        assert_eq!(figures.alarms(), alarms);
    }

    #[test]
    fn a_node_that_was_restarted_counts_from_nothing() {
        let before = text(100, 0, [100, 100, 100]);
        let now = text(10, 0, [10, 10, 10]);
        let figures = Figures::between(&before, &now, 1.0);
        assert!((figures.claims_per_s - 10.0).abs() < 1e-9);
        let idle = Figures::between(&now, &now, 1.0);
        assert_eq!((idle.latency_ms, idle.gate_pass_ratio), (None, None));
    }
}
