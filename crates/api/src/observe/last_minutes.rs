//! Statistics of this node for each of the last seconds, sampled once for all readers.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use qiang_core::{ports::WaitingMonitor, time::Timestamp};
use qiang_wire::answers::{ClaimLatency, Stats};
use serde::Serialize;
use tokio::{sync::watch, time::Instant};
use utoipa::ToSchema;

use crate::{
    http::wire::ToWire as _,
    observe::{
        gauges::Gauges,
        metrics::{ClaimCounts, Metrics},
    },
};

/// Maximum number of records kept.
const KEPT: usize = 300;

/// Statistics of the last minutes of a node, or those after an earlier answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsList)]
pub(crate) struct StatsListBody {
    /// Random id of the process that sampled them, drawn at its start. Numbers of another process do not apply.
    process: String,
    /// Earliest first.
    stats: Vec<Stats>,
}

impl StatsListBody {
    pub(crate) fn is_empty(&self) -> bool {
        self.stats.is_empty()
    }
}

/// The last minutes of this node, for all readers.
#[derive(Debug)]
pub(crate) struct LastMinutes {
    process: String,
    taken: Mutex<ReadingTotals>,
    /// Number of the newest record.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct ReadingTotals {
    /// Counts at the newest record, and its time.
    before: Option<(ClaimCounts, Instant)>,
    stats: VecDeque<Stats>,
}

impl Default for LastMinutes {
    fn default() -> Self {
        Self {
            process: format!("{:016x}", rand::random::<u64>()),
            taken: Mutex::default(),
            newest: watch::Sender::default(),
        }
    }
}

impl LastMinutes {
    /// Samples the statistics since the last call.
    pub(crate) fn take(
        &self,
        metrics: &Metrics,
        gauges: &dyn Gauges,
        waiting: &WaitingMonitor,
        at: Timestamp,
    ) {
        let (counts, now) = (metrics.claim_counts(gauges), Instant::now());
        let mut taken = self.taken.lock();
        let Some((before, since)) = taken.before.replace((counts, now)) else {
            return;
        };
        let number = *self.newest.borrow() + 1;
        let (entries, settled) = gauges.positions();
        let stats = Stats {
            number,
            at: at.to_wire(),
            settlement_lag_entries: entries.saturating_sub(settled),
            queue_length: gauges.queued() as u64,
            queue_entries: waiting.waiting().0,
            ..between(&before, &counts, now - since)
        };
        if taken.stats.len() == KEPT {
            taken.stats.pop_front();
        }
        taken.stats.push_back(stats);
        self.newest.send_replace(number);
    }

    /// Statistics after `number`, and the newest number. If `number` is above it, another process gave it, and all
    /// records are returned.
    pub(crate) fn after(&self, number: u64) -> (StatsListBody, u64) {
        let taken = self.taken.lock();
        let newest = taken.stats.back().map_or(0, |it| it.number);
        let begin = match number {
            foreign if foreign > newest => 0,
            known => taken.stats.partition_point(|it| it.number <= known),
        };
        let body = StatsListBody {
            process: self.process.clone(),
            stats: taken.stats.range(begin..).cloned().collect(),
        };
        (body, newest)
    }

    /// Receiver that changes with each new record.
    pub(crate) fn taken(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

/// Statistics of the claims between two counts.
fn between(before: &ClaimCounts, now: &ClaimCounts, passed: Duration) -> Stats {
    let seconds = passed.as_secs_f64().max(0.001);
    let rate = |count: u64| (count as f64 / seconds * 10.0).round() / 10.0;
    let grown = |(now, before): (u64, u64)| now.saturating_sub(before);
    let ends = now.ends.into_iter().zip(before.ends).map(grown);
    let ended = ClaimCounts::ends()
        .zip(ends)
        .filter(|(_, count)| *count > 0);
    let ended: Vec<_> = ended.collect();
    let claims: u64 = ended.iter().map(|(_, count)| count).sum();
    let by_gate = grown((now.by_gate, before.by_gate)) as f64;
    let share = 1.0 - by_gate / claims as f64;
    let took = now.took.into_iter().zip(before.took).map(grown);
    Stats {
        number: 0,
        at: Timestamp::from_millis(0).to_wire(),
        claims_per_s: rate(claims),
        outcomes_per_s: ended
            .iter()
            .map(|(end, count)| ((*end).to_owned(), rate(*count)))
            .collect(),
        latency_ms: latency(&took.collect::<Vec<_>>()),
        gate_pass_ratio: (claims > 0).then(|| (share.clamp(0.0, 1.0) * 1e3).round() / 1e3),
        settlement_lag_entries: 0,
        queue_length: 0,
        queue_entries: 0,
    }
}

/// Percentiles from the number of claims in each bucket of the histogram; `None` if there were no claims.
fn latency(took: &[u64]) -> Option<ClaimLatency> {
    let all: u64 = took.iter().sum();
    let quantile = |part: f64| {
        let (rank, mut below, mut from) = (part * all as f64, 0.0, 0.0);
        for (count, bound) in took.iter().zip(ClaimCounts::BOUNDS_S) {
            let upto = below + *count as f64;
            if upto >= rank {
                let within = (rank - below) / (upto - below).max(f64::MIN_POSITIVE);
                return from + (bound - from) * within;
            }
            (below, from) = (upto, bound);
        }
        // They took longer than the last bound, and by how much is unknown.
        from
    };
    let millis = |part| (quantile(part) * 1e6).round() / 1e3;
    (all > 0).then(|| ClaimLatency {
        p50: millis(0.5),
        p90: millis(0.9),
        p99: millis(0.99),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn counts(granted: u64, sold_out: u64, took: [u64; 3]) -> ClaimCounts {
        let mut counts = ClaimCounts {
            by_gate: sold_out,
            ..ClaimCounts::default()
        };
        for (end, count) in ClaimCounts::ends().zip(&mut counts.ends) {
            *count = match end {
                "granted" => granted,
                "sold_out" => sold_out,
                _ => 0,
            };
        }
        // At most 1 ms, at most 10 ms, longer than all bounds.
        (counts.took[3], counts.took[6], counts.took[14]) = (took[0], took[1], took[2]);
        counts
    }

    #[test]
    fn a_number_that_another_process_has_given_leaves_nothing_out() {
        let last = LastMinutes::default();
        let (body, newest) = last.after(900);
        assert!(body.is_empty() && newest == 0, "{body:?}");
        let nothing = between(&counts(0, 0, [0; 3]), &counts(0, 0, [0; 3]), Duration::ZERO);
        let numbered = |number| Stats {
            number,
            ..nothing.clone()
        };
        last.taken.lock().stats.extend((5..=7).map(numbered));
        let check = |after, expected: &[u64]| {
            let (body, newest) = last.after(after);
            let numbers: Vec<_> = body.stats.iter().map(|it| it.number).collect();
            assert_eq!((&numbers[..], newest), (expected, 7), "after {after}");
        };
        check(0, &[5, 6, 7]);
        check(5, &[6, 7]);
        check(7, &[]);
        check(8, &[5, 6, 7]);
        check(u64::from(u32::MAX), &[5, 6, 7]);
        assert_ne!(LastMinutes::default().process, last.process);
    }

    #[test]
    fn rates_and_percentiles_are_of_the_interval() {
        let (before, now) = (
            counts(100, 1_000, [7, 7, 7]),
            counts(110, 1_090, [57, 47, 17]),
        );
        let stats = between(&before, &now, Duration::from_secs(2));
        let expected = BTreeMap::from([("granted".to_owned(), 5.0), ("sold_out".to_owned(), 45.0)]);
        assert_eq!((stats.claims_per_s, stats.outcomes_per_s), (50.0, expected));
        assert_eq!(stats.gate_pass_ratio, Some(0.1));
        let latency = ClaimLatency {
            p50: 1.0,
            p90: 10.0,
            p99: 5_000.0,
        };
        assert_eq!(stats.latency_ms, Some(latency));
        let idle = between(&now, &now, Duration::from_secs(1));
        assert_eq!((idle.latency_ms, idle.gate_pass_ratio), (None, None));
        assert!(idle.outcomes_per_s.is_empty());
    }
}
