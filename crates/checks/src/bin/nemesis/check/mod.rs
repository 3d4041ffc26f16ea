//! The checker: holds what clients were answered against the final rows. It knows nothing of how Qiang works.
//!
//! An acknowledged grant may be lost only where a fault was injected that its acknowledgement level does not survive.
//! Such grants are counted as `allowed`; everything else that is wrong is a violation.

mod grants;
mod life;
#[cfg(test)]
mod life_tests;
mod money;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    history::{Attempt, Evidence, Level},
    rows::Rows,
};

/// How many violations of a kind are described; more are only counted.
const TEXTS_MAX: usize = 10;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// An acknowledged grant, payment or cancellation is not in the rows, or is another one there.
    Lost,
    /// A number was given to two users, or a wish was granted as new twice.
    Twice,
    /// A retry was answered differently from the first time.
    Changed,
    /// The ledger has a grant for a user who was refused.
    Phantom,
    /// A wish was never answered, though its user went on asking.
    Unanswered,
    /// Units do not add up.
    Units,
    /// Money does not add up.
    Money,
    /// `qiang audit` found something broken.
    Audit,
    /// The service did not come back by itself in time.
    Unavailable,
    /// An answer that no client should see.
    Unexpected,
    /// Something has not come to its end.
    Open,
}

impl Breach {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Twice => "twice",
            Self::Changed => "retry changed",
            Self::Phantom => "phantom",
            Self::Unanswered => "unanswered",
            Self::Units => "units",
            Self::Money => "money",
            Self::Audit => "audit",
            Self::Unavailable => "unavailable",
            Self::Unexpected => "unexpected answer",
            Self::Open => "open",
        }
    }
}

/// What the checker found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: BTreeMap<Breach, usize>,
    texts: Vec<(Breach, String)>,
    /// What would be a violation, had no fault been injected that excuses it.
    allowed: BTreeMap<Breach, usize>,
    /// Acknowledged grants by level.
    pub(crate) acknowledged: BTreeMap<Level, usize>,
}

impl Findings {
    pub(crate) fn violation(&mut self, breach: Breach, text: String) {
        let count = self.counts.entry(breach).or_default();
        *count += 1;
        if *count <= TEXTS_MAX {
            self.texts.push((breach, text));
        }
    }

    fn allow(&mut self, breach: Breach) {
        *self.allowed.entry(breach).or_default() += 1;
    }

    /// Allowed if `excused`, otherwise a violation.
    fn judge(&mut self, breach: Breach, excused: bool, text: impl FnOnce() -> String) {
        match excused {
            true => self.allow(breach),
            false => self.violation(breach, text()),
        }
    }

    pub(crate) fn counts(&self) -> &BTreeMap<Breach, usize> {
        &self.counts
    }

    pub(crate) fn allowed(&self) -> &BTreeMap<Breach, usize> {
        &self.allowed
    }

    pub(crate) fn texts(&self) -> &[(Breach, String)] {
        &self.texts
    }

    /// Takes in what was found in another round.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (breach, text) in other.texts {
            let kept = self.texts.iter().filter(|(kind, _)| *kind == breach);
            if kept.count() < TEXTS_MAX {
                self.texts.push((breach, text));
            }
        }
        for (sums, counts) in [
            (&mut self.counts, other.counts),
            (&mut self.allowed, other.allowed),
        ] {
            for (breach, count) in counts {
                *sums.entry(breach).or_default() += count;
            }
        }
        for (level, count) in other.acknowledged {
            *self.acknowledged.entry(level).or_default() += count;
        }
    }
}

impl Evidence {
    /// Whether a fault was injected that may take away what this request acknowledged.
    fn excuses(&self, attempt: &Attempt, level: Level) -> bool {
        self.losses
            .iter()
            .any(|window| window.excuses(attempt, level))
    }
}

/// Judges a run that has come to rest.
pub(crate) fn judge(evidence: &Evidence, rows: &Rows) -> Findings {
    let mut findings = judge_answers(evidence);
    grants::check(evidence, rows, &mut findings);
    money::check(evidence, rows, &mut findings);
    for broken in &rows.audit {
        findings.violation(Breach::Audit, broken.clone());
    }
    findings
}

/// Judges what only campaigns have to show whose lives are over, in a run without faults that may lose anything.
pub(crate) fn judge_lives(evidence: &Evidence, rows: &Rows) -> Findings {
    let mut findings = Findings::default();
    life::check(evidence, rows, &mut findings);
    findings
}

/// Judges the answers by themselves, also of a run that has not come to rest: nothing twice, every retry the same.
pub(crate) fn judge_answers(evidence: &Evidence) -> Findings {
    let mut findings = Findings::default();
    grants::check_answers(evidence, &mut findings);
    findings
}
