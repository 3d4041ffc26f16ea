//! Checker: compares the clients' answers with the final rows. It knows nothing of Qiang's implementation.
//!
//! An acknowledged grant may be lost only if an injected fault exceeds its acknowledgement level. Such grants are
//! counted as `allowed`. Every other error is a violation.

mod grants;
mod life;
#[cfg(test)]
mod life_tests;
mod money;
mod returns;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    history::{Attempt, Evidence, Level},
    rows::Rows,
};

/// Maximum violations of a kind with a text. Further ones are only counted.
const TEXTS_MAX: usize = 10;

/// Kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// An acknowledged grant, payment or cancellation is missing in the rows, or different there.
    Lost,
    /// A number was granted to two users, or a wish was granted twice as new.
    Twice,
    /// A retry got another answer than the first request.
    Changed,
    /// The ledger has a grant for a user who was refused.
    Phantom,
    /// A wish was never answered, although its user repeated the request.
    Unanswered,
    /// Units do not add up.
    Units,
    /// Money does not add up.
    Money,
    /// `qiang audit` reported an error.
    Audit,
    /// The service did not recover in time.
    Unavailable,
    /// A client got an answer that it should not get.
    Unexpected,
    /// A campaign or an order has not ended.
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

/// Result of the checker.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: BTreeMap<Breach, usize>,
    texts: Vec<(Breach, String)>,
    /// Violations that an injected fault excuses.
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

    /// Adds the findings of another round.
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
    /// Whether an injected fault may lose data that this request acknowledged.
    fn excuses(&self, attempt: &Attempt, level: Level) -> bool {
        self.losses
            .iter()
            .any(|window| window.excuses(attempt, level))
    }
}

/// Judges a run that is settled.
pub(crate) fn judge(evidence: &Evidence, rows: &Rows) -> Findings {
    let mut findings = judge_answers(evidence);
    grants::check(evidence, rows, &mut findings);
    returns::check(evidence, rows, &mut findings);
    money::check(evidence, rows, &mut findings);
    for broken in &rows.audit {
        findings.violation(Breach::Audit, broken.clone());
    }
    findings
}

/// Judges properties of ended campaigns, in a run without faults that may lose data.
pub(crate) fn judge_lives(evidence: &Evidence, rows: &Rows) -> Findings {
    let mut findings = Findings::default();
    life::check(evidence, rows, &mut findings);
    findings
}

/// Judges only the answers, also of a run that is not settled: nothing is doubled, and every retry has the same answer.
pub(crate) fn judge_answers(evidence: &Evidence) -> Findings {
    let mut findings = Findings::default();
    grants::check_answers(evidence, &mut findings);
    findings
}
