//! Report: runs, their medians, and the JSON object.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    load::{Load, Ran},
    scheme::{About, Exact, LOCK_TIMEOUTS, PUBLISHED_CONDITIONS},
    tally::Tally,
    wire::Work,
};
use crate::median;

/// Result of one run of one scheme.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) claims: u64,
    pub(super) seconds: f64,
    pub(super) claims_per_second: f64,
    pub(super) grants_per_second: f64,
    /// Latency from joining the queue until the answer.
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    /// Processor time of all threads of Redis.
    pub(super) redis_cpu_us_per_claim: Option<f64>,
    pub(super) redis_cpu_us_per_grant: Option<f64>,
    /// Processor time of the thread that executes commands.
    pub(super) redis_main_cpu_us_per_claim: Option<f64>,
    pub(super) round_trips_per_claim: Option<f64>,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) already: u64,
    pub(super) sold_out: u64,
    pub(super) refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_error: Option<String>,
    pub(super) notes: BTreeMap<&'static str, u64>,
    /// Broken promises of the scheme.
    pub(super) broken: Vec<String>,
}

impl Run {
    pub(super) fn new(
        exact: Exact,
        ran: &Ran,
        work: Option<&Work>,
        tally: Tally,
        notes: BTreeMap<&'static str, u64>,
    ) -> Self {
        let answers = &ran.answers;
        let claims = answers.claims();
        let per = |amount: f64, count: u64| (count > 0).then(|| amount / count as f64);
        let cpu = |count| work.and_then(|work| per(work.cpu_us, count));
        Self {
            claims,
            seconds: ran.seconds,
            claims_per_second: claims as f64 / ran.seconds,
            grants_per_second: tally.grants as f64 / ran.seconds,
            p50_us: answers.latency_us.value_at_quantile(0.5),
            p99_us: answers.latency_us.value_at_quantile(0.99),
            redis_cpu_us_per_claim: cpu(claims),
            redis_cpu_us_per_grant: cpu(tally.grants),
            redis_main_cpu_us_per_claim: work.and_then(|work| per(work.main_cpu_us, claims)),
            round_trips_per_claim: (answers.round_trips > 0)
                .then(|| answers.round_trips as f64 / claims as f64),
            already: answers.already,
            sold_out: answers.sold_out,
            refused: answers.refused,
            first_error: answers.first_error.clone(),
            broken: tally.breaches(exact),
            tally,
            notes,
        }
    }

    /// Number of locks that expired before their release; `None` for a scheme without locks.
    fn lock_timeouts(&self) -> Option<u64> {
        self.notes.get(LOCK_TIMEOUTS).copied()
    }
}

/// Results of a scheme under one load.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) about: About,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) median: Option<Median>,
    pub(super) runs: Vec<Run>,
}

/// Medians over the runs; for violations, the worst run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Median {
    pub(super) claims_per_second: f64,
    pub(super) grants_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) redis_cpu_us_per_claim: Option<f64>,
    pub(super) redis_cpu_us_per_grant: Option<f64>,
    pub(super) redis_main_cpu_us_per_claim: Option<f64>,
    pub(super) round_trips_per_claim: Option<f64>,
    /// Median of the grants/s divided by those of `queue` in the same round.
    pub(super) grants_times_queue: Option<f64>,
    /// Median of Redis's CPU time per grant divided by that of `queue` in the same round.
    pub(super) redis_cpu_per_grant_times_queue: Option<f64>,
    pub(super) success: f64,
    pub(super) oversold: u64,
    pub(super) duplicates: u64,
    pub(super) stranded: u64,
    /// Number of locks that expired before their release; `None` for a scheme without locks.
    pub(super) lock_timeouts: Option<u64>,
}

impl Row {
    pub(super) fn new(about: &About) -> Self {
        Self {
            about: *about,
            median: None,
            runs: Vec::new(),
        }
    }

    fn exact(&self) -> bool {
        self.runs.iter().all(|run| run.broken.is_empty())
    }

    fn median_beside(&self, queue: Option<&[Run]>) -> Option<Median> {
        let of = |figure: fn(&Run) -> f64| median(self.runs.iter().map(figure));
        let if_any = |figure: fn(&Run) -> Option<f64>| median(self.runs.iter().filter_map(figure));
        let worst = |count: fn(&Tally) -> u64| {
            let counts = self.runs.iter().map(|run| count(&run.tally));
            counts.max().unwrap_or(0)
        };
        let times_queue = |figure: fn(&Run) -> Option<f64>| {
            let pairs = self.runs.iter().zip(queue?);
            median(pairs.filter_map(|(ours, theirs)| Some(figure(ours)? / figure(theirs)?)))
        };
        Some(Median {
            claims_per_second: of(|run| run.claims_per_second)?,
            grants_per_second: of(|run| run.grants_per_second)?,
            p50_us: of(|run| run.p50_us as f64)?,
            p99_us: of(|run| run.p99_us as f64)?,
            redis_cpu_us_per_claim: if_any(|run| run.redis_cpu_us_per_claim),
            redis_cpu_us_per_grant: if_any(|run| run.redis_cpu_us_per_grant),
            redis_main_cpu_us_per_claim: if_any(|run| run.redis_main_cpu_us_per_claim),
            round_trips_per_claim: if_any(|run| run.round_trips_per_claim),
            grants_times_queue: times_queue(|run| Some(run.grants_per_second)),
            redis_cpu_per_grant_times_queue: times_queue(|run| run.redis_cpu_us_per_grant),
            success: of(|run| run.tally.success)?,
            oversold: worst(|tally| tally.oversold),
            duplicates: worst(|tally| tally.duplicates),
            stranded: worst(|tally| tally.stranded),
            lock_timeouts: self.runs.iter().filter_map(Run::lock_timeouts).max(),
        })
    }
}

/// Results of all schemes under one load.
#[derive(Debug, Serialize)]
pub(super) struct Loaded {
    #[serde(flatten)]
    pub(super) load: Load,
    pub(super) claims: u64,
    pub(super) schemes: Vec<Row>,
}

impl Loaded {
    pub(super) fn new(load: Load, claims: u64, mut schemes: Vec<Row>) -> Self {
        let queue = schemes
            .iter()
            .find(|row| row.about.name == "queue")
            .map(|row| row.runs.clone());
        for row in &mut schemes {
            row.median = row.median_beside(queue.as_deref());
        }
        Self {
            load,
            claims,
            schemes,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether every scheme that must be exact was exact.
    pub(super) ok: bool,
    pub(super) redis: Option<String>,
    pub(super) cores: usize,
    pub(super) repeat: u32,
    published_conditions: &'static str,
    pub(super) loads: Vec<Loaded>,
}

impl Report {
    pub(super) fn new(redis: Option<String>, repeat: u32, loads: Vec<Loaded>) -> Self {
        let mut rows = loads.iter().flat_map(|load| &load.schemes);
        Self {
            ok: rows.all(Row::exact),
            redis,
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            repeat,
            published_conditions: PUBLISHED_CONDITIONS,
            loads,
        }
    }

    /// Lines about schemes that must be exact and were not.
    pub(super) fn broken(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for load in &self.loads {
            for row in load.schemes.iter().filter(|row| !row.exact()) {
                let runs = row.runs.iter().filter(|run| !run.broken.is_empty());
                let what: Vec<String> = runs.map(|run| run.broken.join(", ")).collect();
                let error = row.runs.iter().find_map(|run| run.first_error.as_deref());
                let error = error.map_or_else(String::new, |error| format!(" ({error})"));
                lines.push(format!(
                    "{} must be exact and was not, in {} of {} runs of the {}: {}{error}",
                    row.about.name,
                    what.len(),
                    row.runs.len(),
                    load.load.load.as_str(),
                    what.join("; "),
                ));
            }
        }
        lines
    }

    /// Lines about schemes whose locks expired during the work of their owners. Then nothing excluded other users.
    pub(super) fn overruns(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for load in &self.loads {
            for row in &load.schemes {
                let timeouts = row.runs.iter().filter_map(Run::lock_timeouts);
                let late: Vec<u64> = timeouts.filter(|count| *count > 0).collect();
                if !late.is_empty() {
                    lines.push(format!(
                        "{}: {} locks expired before they were released, in {} of {} runs of the {}",
                        row.about.name,
                        late.iter().sum::<u64>(),
                        late.len(),
                        row.runs.len(),
                        load.load.load.as_str(),
                    ));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{
            load::{Answers, Name},
            lock, queue, unlocked,
        },
        *,
    };

    const LOAD: Load = Load {
        load: Name::Rush,
        users: 10_000,
        shares: 100,
        waiting: 11_000,
        connections: 20,
        twice_every: 10,
    };

    /// Run of one second with this many grants on 100 shares.
    fn run(about: &About, grants: u32, cpu_us: f64, notes: &[(&'static str, u64)]) -> Run {
        let mut answers = Answers::new().unwrap();
        answers.granted = (0..grants).map(|user| (user, None)).collect();
        answers.sold_out = u64::from(11_000 - grants);
        answers.round_trips = 22_000;
        answers.latency_us.record(2_500).unwrap();
        let tally = Tally {
            grants: u64::from(grants),
            right: 100,
            success: 100.0 / f64::from(grants),
            oversold: u64::from(grants - 100),
            ..Tally::default()
        };
        let work = Work {
            cpu_us,
            main_cpu_us: cpu_us / 2.0,
            ..Work::default()
        };
        let ran = Ran {
            answers,
            seconds: 1.0,
        };
        let notes = notes.iter().copied().collect();
        Run::new(about.exact, &ran, Some(&work), tally, notes)
    }

    pub(in super::super) fn report(rows: &[(&About, &[(u32, f64)])]) -> Report {
        noted(rows, &[])
    }

    /// The same with notes of each run.
    pub(in super::super) fn noted(
        rows: &[(&About, &[(u32, f64)])],
        notes: &[(&'static str, u64)],
    ) -> Report {
        let row = |(about, runs): &(&About, &[(u32, f64)])| {
            let mut row = Row::new(about);
            row.runs = runs
                .iter()
                .map(|(grants, cpu_us)| run(about, *grants, *cpu_us, notes))
                .collect();
            row
        };
        let rows = rows.iter().map(row).collect();
        let loaded = Loaded::new(LOAD, 11_000, rows);
        Report::new(Some("Redis 7.0.15".to_owned()), 3, vec![loaded])
    }

    #[test]
    fn who_promises_nothing_breaks_nothing() {
        let report = report(&[
            (&queue::ABOUT, &[(100, 5e5)]),
            (&unlocked::ABOUT, &[(137, 3e5)]),
        ]);
        assert!(report.ok);
        assert_eq!(report.broken(), Vec::<String>::new());
    }

    #[test]
    fn who_must_be_exact_and_is_not_is_named() {
        let held_to_it = About {
            exact: Exact::Supply,
            ..unlocked::ABOUT
        };
        let rows: &[(&About, &[(u32, f64)])] = &[
            (&queue::ABOUT, &[(100, 5e5), (100, 5e5)]),
            (&held_to_it, &[(100, 3e5), (137, 3e5)]),
        ];
        let report = report(rows);
        assert!(!report.ok);
        let line = "unlocked must be exact and was not, in 1 of 2 runs of the rush: 37 oversold";
        assert_eq!(report.broken(), [line]);
    }

    #[test]
    fn locks_that_expired_too_early_are_said() {
        let rows: &[(&About, &[(u32, f64)])] = &[(&lock::ABOUT, &[(100, 2e5), (100, 2e5)])];
        let line = "lock: 6 locks expired before they were released, in 2 of 2 runs of the rush";
        assert_eq!(noted(rows, &[(LOCK_TIMEOUTS, 3)]).overruns(), [line]);
        for silent in [noted(rows, &[(LOCK_TIMEOUTS, 0)]), report(rows)] {
            assert_eq!(silent.overruns(), Vec::<String>::new());
        }
    }

    #[test]
    fn medians_and_ratios_go_by_round() {
        let report = report(&[
            (&queue::ABOUT, &[(100, 4e5), (100, 2e5), (100, 8e5)]),
            (&lock::ABOUT, &[(100, 2e5), (100, 2e5), (100, 2e5)]),
        ]);
        let median = |index: usize| report.loads[0].schemes[index].median.clone().unwrap();
        let near = |figure: Option<f64>, expected: f64| {
            assert!((figure.unwrap() - expected).abs() < 1e-9, "{figure:?}");
        };
        near(median(0).redis_cpu_us_per_grant, 4_000.0);
        near(median(0).redis_main_cpu_us_per_claim, 2e5 / 11_000.0);
        near(median(0).round_trips_per_claim, 2.0);
        near(median(0).grants_times_queue, 1.0);
        // 0.5, 1 and 0.25 of the queue's in the same round.
        near(median(1).redis_cpu_per_grant_times_queue, 0.5);
    }
}
