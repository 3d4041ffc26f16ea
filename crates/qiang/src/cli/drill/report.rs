//! Report of a drill.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{crowd::Seen, faults::Fault, verify::DrillVerdict};

/// Effect of one fault on users.
#[derive(Debug, Serialize)]
pub(super) struct FaultReport {
    fault: &'static str,
    text: &'static str,
    /// Reason why the fault was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skipped: Option<String>,
    claims: u64,
    granted: u64,
    /// Refused claims by status.
    refused: BTreeMap<u16, u64>,
    unanswered: u64,
    /// Longest time from a user's first press to the order.
    longest_wait_ms: u64,
    /// Time from the fault to the last claim that failed; 0 if none failed.
    recovered_ms: u64,
    is_recovered: bool,
}

/// The whole drill.
#[derive(Debug, Serialize)]
pub(super) struct DrillReport {
    pub(super) ok: bool,
    sale: String,
    faults: Vec<FaultReport>,
    verdict: DrillVerdict,
}

impl FaultReport {
    pub(super) fn skipped(fault: Fault, reason: String) -> Self {
        Self {
            skipped: Some(reason),
            ..Self::made(fault, Instant::now(), true, Seen::default())
        }
    }

    /// The fault could not be made: the drill is not complete.
    pub(super) fn refused(fault: Fault, reason: String) -> Self {
        Self {
            is_recovered: false,
            ..Self::skipped(fault, reason)
        }
    }

    pub(super) fn made(fault: Fault, begun: Instant, is_recovered: bool, seen: Seen) -> Self {
        let failed = seen.last_failure;
        let recovered = failed.map_or(Duration::ZERO, |at| at.saturating_duration_since(begun));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            fault: fault.name(),
            text: fault.text(),
            skipped: None,
            claims: seen.claims,
            granted: seen.granted,
            refused: seen.refused,
            unanswered: seen.unanswered,
            longest_wait_ms: millis(seen.longest_wait),
            recovered_ms: millis(recovered),
            is_recovered,
        }
    }

    /// Failures that users saw, in words.
    fn saw(&self) -> String {
        let mut saw = String::new();
        for (status, count) in &self.refused {
            // A text takes any number of writes.
            let _ = write!(saw, "{count} × {status}, ");
        }
        if self.unanswered > 0 {
            let _ = write!(saw, "{} × no answer, ", self.unanswered);
        }
        match saw.strip_suffix(", ") {
            Some(saw) => saw.to_owned(),
            None => "no failure".to_owned(),
        }
    }
}

impl DrillReport {
    /// Report of a drill. `is_complete` says whether every requested fault was made.
    pub(super) fn new(
        sale: String,
        faults: Vec<FaultReport>,
        verdict: DrillVerdict,
        is_complete: bool,
    ) -> Self {
        let all_recovered = faults.iter().all(|fault| fault.is_recovered);
        let some_made = faults.iter().any(|fault| fault.skipped.is_none());
        Self {
            ok: is_complete && all_recovered && some_made && verdict.is_ok(),
            sale,
            faults,
            verdict,
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

pub(super) fn print(report: &DrillReport, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{:<12} {:>8} {:>13} {:>13}  users saw",
        "fault", "claims", "longest wait", "served after"
    )?;
    for fault in &report.faults {
        if let Some(reason) = &fault.skipped {
            writeln!(out, "{:<12} not made: {reason}", fault.fault)?;
            continue;
        }
        let served = match fault.is_recovered {
            true => seconds(fault.recovered_ms),
            false => "never".to_owned(),
        };
        writeln!(
            out,
            "{:<12} {:>8} {:>13} {:>13}  {} ({})",
            fault.fault,
            fault.claims,
            seconds(fault.longest_wait_ms),
            served,
            fault.saw(),
            fault.text
        )?;
    }
    let DrillVerdict {
        answered,
        in_ledger,
        lost,
        lost_total,
        checks,
        broken,
    } = &report.verdict;
    writeln!(
        out,
        "\norders: {answered} answered, {in_ledger} in the ledger, {lost_total} lost"
    )?;
    for order in lost {
        writeln!(out, "  lost: {order}")?;
    }
    match broken.is_empty() {
        true => writeln!(out, "audit: {checks} checks, none broken")?,
        false => writeln!(
            out,
            "audit: {} broken: run `qiang audit --redis`",
            broken.join(", ")
        )?,
    }
    let result = if report.ok { "passed" } else { "FAILED" };
    writeln!(out, "drill of sale {}: {result}", report.sale)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_users_saw() {
        let begun = Instant::now();
        let seen = Seen {
            claims: 10,
            granted: 7,
            refused: [(503, 2)].into(),
            unanswered: 1,
            longest_wait: Duration::from_millis(3_140),
            last_failure: Some(begun + Duration::from_millis(2_960)),
        };
        let report = FaultReport::made(Fault::Pause, begun, true, seen);
        assert_eq!(report.saw(), "2 × 503, 1 × no answer");
        assert_eq!(seconds(report.longest_wait_ms), "3.1 s");
        assert_eq!(seconds(report.recovered_ms), "2.9 s");
        let unseen = FaultReport::made(Fault::Scripts, begun, true, Seen::default());
        assert_eq!(
            (unseen.saw().as_str(), unseen.recovered_ms),
            ("no failure", 0)
        );
    }
}
