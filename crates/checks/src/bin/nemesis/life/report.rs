//! Report of lives.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::{
    check::Findings,
    history::{Answer, Evidence, Wish},
    installation::ledger::LedgerKind,
    rows::Rows,
};

/// Result of one life.
#[derive(Debug)]
pub(crate) struct Lived {
    seed: u64,
    ledger: LedgerKind,
    findings: Findings,
    /// Number of occurrences of each event.
    counts: BTreeMap<&'static str, usize>,
    pub(super) faults: usize,
    pub(super) took: Duration,
    /// Folder of the logs, if the life is not sound.
    pub(super) logs: Option<PathBuf>,
}

impl Lived {
    pub(super) fn new(
        seed: u64,
        ledger: LedgerKind,
        evidence: &Evidence,
        rows: &Rows,
        findings: Findings,
    ) -> Self {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut count = |what, times| *counts.entry(what).or_default() += times;
        count("campaigns", evidence.campaigns.len());
        count("wishes", evidence.operations.len());
        count("refunds", rows.refunds.len());
        for operation in &evidence.operations {
            let undecided = operation.attempts.iter();
            let undecided = undecided.filter(|attempt| !attempt.answer.is_final());
            count("undecided", undecided.count());
            let stock = |answer: &Answer| matches!(answer, Answer::Stock(_));
            let is_change = matches!(operation.wish, Wish::SetStock { .. });
            if is_change && operation.attempts.iter().any(|a| stock(&a.answer)) {
                count("stock changes", 1);
            }
        }
        for row in rows.grants.values() {
            count(
                match row.state.as_str() {
                    "granted" => "shares",
                    "paid" => "paid",
                    "cancelled" => "cancelled",
                    "expired" => "expired",
                    "returned" => "returned",
                    _ => "open",
                },
                1,
            );
        }
        let due = rows.payments.iter().filter(|row| row.3 == "refund_due");
        count("payments owed back", due.count());
        let reinstated = rows.payments.iter().filter(|row| row.3 == "reinstated");
        count("reinstated", reinstated.count());
        Self {
            seed,
            ledger,
            findings,
            counts,
            faults: 0,
            took: Duration::ZERO,
            logs: None,
        }
    }

    pub(super) fn count(&mut self, what: &'static str, times: usize) {
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.findings.counts().is_empty()
    }

    /// The verdict and all violations.
    pub(super) fn text(&self) -> String {
        let (seed, ledger, faults) = (self.seed, self.ledger.name(), self.faults);
        let verdict = if self.is_sound() { "sound" } else { "BROKEN" };
        let counts: Vec<String> = self
            .counts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        let mut text = format!(
            "seed {seed} on {ledger}: {verdict} in {:.1} s: {faults} faults, {}",
            self.took.as_secs_f64(),
            counts.join(", ")
        );
        for (breach, what) in self.findings.texts() {
            text += &format!("\n  {}: {what}", breach.name());
        }
        if let Some(logs) = &self.logs {
            text += &format!("\n  history, rows and logs: {}", logs.display());
        }
        text
    }
}

/// Results of all lives.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) lives: Vec<Lived>,
}

impl Report {
    /// A run without lives proves nothing.
    pub(crate) fn is_sound(&self) -> bool {
        !self.lives.is_empty() && self.lives.iter().all(Lived::is_sound)
    }

    fn broken(&self) -> Vec<u64> {
        let broken = self.lives.iter().filter(|lived| !lived.is_sound());
        broken.map(|lived| lived.seed).collect()
    }

    fn sums(&self) -> BTreeMap<&'static str, usize> {
        let mut sums = BTreeMap::new();
        for lived in &self.lives {
            for (what, count) in &lived.counts {
                *sums.entry(*what).or_default() += count;
            }
            *sums.entry("faults").or_default() += lived.faults;
        }
        sums
    }

    /// The sums, and the broken seeds.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (what, count) in self.sums() {
            text += &format!("{what:<28} {count:>8}\n");
        }
        for lived in self.lives.iter().filter(|lived| !lived.is_sound()) {
            text += &lived.text();
            text += "\n";
        }
        let seconds: f64 = self.lives.iter().map(|l| l.took.as_secs_f64()).sum();
        text += &match self.broken().as_slice() {
            [] if self.lives.is_empty() => "NO LIVES: the run proves nothing\n".to_owned(),
            [] => format!("{} lives in {seconds:.0} s, all sound\n", self.lives.len()),
            broken => format!(
                "BROKEN: {} of {} lives, seeds {broken:?}\n",
                broken.len(),
                self.lives.len()
            ),
        };
        text
    }

    /// The report as JSON.
    pub(crate) fn json(&self) -> Value {
        let lives = self.lives.iter().map(|lived| {
            let texts = lived.findings.texts().iter();
            json!({ "seed": lived.seed, "ledger": lived.ledger.name(), "sound": lived.is_sound(),
                "faults": lived.faults, "took_ms": lived.took.as_millis() as u64, "counts": lived.counts,
                "details": texts.map(|(breach, what)| format!("{}: {what}", breach.name())).collect::<Vec<_>>() })
        });
        json!({ "lives": lives.collect::<Vec<_>>(), "sums": self.sums(), "broken": self.broken() })
    }
}
