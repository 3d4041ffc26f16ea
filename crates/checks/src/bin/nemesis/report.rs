//! Report of a run: faults by kind, recovery times, violations.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    check::{Breach, Findings},
    history::Level,
    plan::{Fault, Topology},
};

/// Results of the faults of one kind and target.
#[derive(Debug, Default)]
struct Row {
    count: usize,
    recoveries: Vec<Duration>,
    failed: usize,
}

/// The report of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: BTreeMap<(&'static str, &'static str, &'static str), Row>,
    pub(crate) findings: Findings,
    /// Wishes with a final answer.
    pub(crate) answered: usize,
    /// Requests that were not decided and were repeated.
    pub(crate) undecided: usize,
    pub(crate) rounds: usize,
    /// Changes of partitions' primaries.
    pub(crate) promotions: usize,
    /// Units that repairs had withheld when campaigns were closed.
    pub(crate) withheld: u64,
}

impl Report {
    /// Records a fault with its recovery time; `None` if the service did not recover in time.
    pub(crate) fn fault(&mut self, topology: Topology, fault: &Fault, recovery: Option<Duration>) {
        let topology = match topology {
            Topology::Standalone => "standalone",
            Topology::Sentinel => "sentinel",
            Topology::Cluster => "cluster",
        };
        let key = (topology, fault.kind.name(), fault.target.name());
        let row = self.rows.entry(key).or_default();
        row.count += 1;
        match recovery {
            Some(recovery) => row.recoveries.push(recovery),
            None => row.failed += 1,
        }
    }

    /// A run without faults proves nothing.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults() > 0 && self.findings.counts().is_empty()
    }

    /// Number of faults.
    pub(crate) fn faults(&self) -> usize {
        self.rows.values().map(|row| row.count).sum()
    }

    /// The report as a table.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{:<9} {:<8} {:<15} {:>6} {:>10} {:>10} {:>8}\n",
            "topology", "fault", "target", "count", "median s", "worst s", "failed"
        );
        for ((topology, kind, target), row) in &self.rows {
            let (median, worst) = times(&row.recoveries);
            text += &format!(
                "{topology:<9} {kind:<8} {target:<15} {:>6} {median:>10} {worst:>10} {:>8}\n",
                row.count, row.failed
            );
        }
        let all: Vec<Duration> = self.all_recoveries();
        let (median, worst) = times(&all);
        text += &format!(
            "{:<34} {:>6} {median:>10} {worst:>10} {:>8}\n\n",
            "all",
            self.faults(),
            self.rows.values().map(|row| row.failed).sum::<usize>()
        );
        text += &format!(
            "{} rounds, {} wishes answered, {} requests without a decision, {} changes of a partition's primary\n",
            self.rounds, self.answered, self.undecided, self.promotions
        );
        for level in Level::ALL {
            let count = self.findings.acknowledged.get(&level).unwrap_or(&0);
            text += &format!("acknowledged at level {level}: {count}\n");
        }
        for (breach, count) in self.findings.allowed() {
            text += &format!(
                "allowed because of a fault beyond the level: {} {count}\n",
                breach.name()
            );
        }
        for (breach, count) in self.findings.counts() {
            text += &format!("VIOLATION {}: {count}\n", breach.name());
        }
        for (breach, what) in self.findings.texts() {
            text += &format!("  {}: {what}\n", breach.name());
        }
        if self.withheld > 0 {
            text += &format!("units withheld by repairs: {}\n", self.withheld);
        }
        if self.faults() == 0 {
            text += "NO FAULTS: the run proves nothing\n";
        } else if self.is_sound() {
            text += "no violations\n";
        }
        text
    }

    /// The report as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|((topology, kind, target), row)| {
            let mut sorted = row.recoveries.clone();
            sorted.sort_unstable();
            let millis = |time: Option<&Duration>| time.map(|time| time.as_millis() as u64);
            json!({ "topology": topology, "fault": kind, "target": target, "count": row.count,
                "median_ms": millis(sorted.get(sorted.len() / 2)), "worst_ms": millis(sorted.last()),
                "failed": row.failed })
        });
        let counts = |counts: &BTreeMap<Breach, usize>| -> Value {
            counts
                .iter()
                .map(|(breach, count)| (breach.name().to_owned(), json!(count)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let texts = self.findings.texts().iter();
        json!({
            "faults": rows.collect::<Vec<_>>(), "count": self.faults(), "rounds": self.rounds,
            "answered": self.answered, "undecided": self.undecided, "promotions": self.promotions,
            "withheld": self.withheld,
            "violations": counts(self.findings.counts()), "allowed": counts(self.findings.allowed()),
            "details": texts.map(|(breach, what)| format!("{}: {what}", breach.name())).collect::<Vec<_>>(),
        })
    }

    fn all_recoveries(&self) -> Vec<Duration> {
        let rows = self.rows.values();
        rows.flat_map(|row| row.recoveries.iter().copied())
            .collect()
    }
}

/// Median and maximum, in seconds.
fn times(recoveries: &[Duration]) -> (String, String) {
    let mut sorted = recoveries.to_vec();
    sorted.sort_unstable();
    let seconds = |time: Option<&Duration>| {
        time.map_or_else(
            || "-".to_owned(),
            |time| format!("{:.2}", time.as_secs_f64()),
        )
    };
    (
        seconds(sorted.get(sorted.len() / 2)),
        seconds(sorted.last()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Kind, Target};

    #[test]
    fn a_run_without_faults_is_not_sound() {
        let report = Report::default();
        assert!(!report.is_sound());
        assert!(!report.text().contains("no violations"));
    }

    #[test]
    fn the_table_has_a_row_for_each_kind_and_target() {
        let mut report = Report::default();
        let fault = Fault {
            kind: Kind::Kill,
            target: Target::Worker,
            hold: Duration::ZERO,
            amount: 0,
            pause: Duration::ZERO,
        };
        for recovery in [Some(1), Some(9), Some(3), None] {
            report.fault(
                Topology::Sentinel,
                &fault,
                recovery.map(Duration::from_secs),
            );
        }
        let text = report.text();
        let row = text.lines().nth(1).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            words,
            ["sentinel", "kill", "worker", "4", "3.00", "9.00", "1"]
        );
        assert!(text.contains("no violations"), "{text}");
        assert_eq!(report.json()["count"], 4);
        let lost = "a grant".to_owned();
        report.findings.violation(Breach::Lost, lost);
        assert!(report.text().contains("VIOLATION lost: 1"));
        assert!(!report.is_sound());
    }
}
