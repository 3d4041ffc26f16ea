//! Report of an audit.

use std::fmt;

use serde::Serialize;

use super::{LedgerFileKind, remedies::remedy};

/// Maximum offending rows that a check lists. Further ones are only counted.
const OFFENDING_MAX: usize = 20;

/// Result of an audit.
#[derive(Debug, Serialize)]
pub struct AuditFindings {
    /// Whether every applicable check holds.
    pub ok: bool,
    /// Kind of the file.
    pub kind: LedgerFileKind,
    /// Database of the ledger, without its password; `None` for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Unsettled entries in the engine's log; `None` if no engine was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Quarantined entries; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<QuarantineTotals>,
    /// All checks, in the order of their execution.
    pub checks: Vec<CheckResult>,
}

/// Numbers of quarantined entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QuarantineTotals {
    /// Entries that the ledger refused.
    pub refused: u64,
    /// Entries that wait for them.
    pub waiting: u64,
}

/// Result of one check.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    /// Name of the check and of its file.
    pub name: &'static str,
    /// Whether no row offends; null for a check that is not applicable.
    pub ok: Option<bool>,
    /// Reason why it is not applicable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<&'static str>,
    /// Number of examined rows.
    pub examined: u64,
    /// First offending rows, one line each.
    pub offending: Vec<String>,
    /// Number of offending rows.
    pub offending_total: u64,
    /// Remedy for operators; `None` unless the check is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

impl CheckResult {
    pub(super) fn new(name: &'static str, examined: u64) -> Self {
        Self {
            name,
            ok: Some(true),
            not_applicable: None,
            examined,
            offending: Vec::new(),
            offending_total: 0,
            remedy: None,
        }
    }

    /// Creates a check that is not applicable to such a file.
    pub(super) fn not_applicable(name: &'static str, why: &'static str) -> Self {
        Self {
            ok: None,
            not_applicable: Some(why),
            ..Self::new(name, 0)
        }
    }

    /// Whether a row offends.
    pub fn is_broken(&self) -> bool {
        self.ok == Some(false)
    }

    pub(super) fn examine(&mut self) {
        self.examined += 1;
    }

    pub(super) fn offend(&mut self, what: String) {
        self.ok = Some(false);
        self.remedy = remedy(self.name);
        self.offending_total += 1;
        if self.offending.len() < OFFENDING_MAX {
            self.offending.push(what);
        }
    }
}

impl AuditFindings {
    /// Description of the audited ledger.
    pub fn subject(&self) -> String {
        match &self.database {
            Some(place) => format!("a ledger, as of one moment: {place}"),
            None => self.kind.described().to_owned(),
        }
    }
}

impl fmt::Display for AuditFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.subject())?;
        writeln!(f, "{:<20} {:>12}  result", "check", "examined")?;
        for check in &self.checks {
            write!(f, "{:<20} {:>12}  ", check.name, check.examined)?;
            match (check.not_applicable, check.offending_total) {
                (Some(why), _) => writeln!(f, "not applicable: {why}")?,
                (None, 0) => writeln!(f, "ok")?,
                (None, offending) => writeln!(f, "BROKEN: {offending}")?,
            }
        }
        for check in self.checks.iter().filter(|check| check.is_broken()) {
            writeln!(f, "\n{}:", check.name)?;
            for line in &check.offending {
                writeln!(f, "  {line}")?;
            }
            let unlisted = check.offending_total - check.offending.len() as u64;
            if unlisted > 0 {
                writeln!(f, "  and {unlisted} more")?;
            }
            if let Some(remedy) = check.remedy {
                writeln!(f, "  do: {remedy}")?;
            }
        }
        if let Some(entries) = self.in_flight {
            writeln!(
                f,
                "\nin flight, in the engine's log and not settled: {entries} entries"
            )?;
        }
        if let Some(QuarantineTotals { refused, waiting }) = self.set_aside {
            let entries =
                format!("{refused} entries that the ledger refused, and {waiting} that wait");
            writeln!(
                f,
                "\nin quarantine: {entries}; `qiang quarantine list` names them, `redrive` settles them"
            )?;
        }
        let count =
            |so: fn(&CheckResult) -> bool| self.checks.iter().filter(|check| so(check)).count();
        let made = count(|check| check.ok.is_some());
        match count(CheckResult::is_broken) {
            0 => write!(f, "\nok: {made} checks hold")?,
            broken => write!(f, "\nBROKEN: {broken} of {made} checks")?,
        }
        match count(|check| check.ok.is_none()) {
            0 => Ok(()),
            others => write!(f, "; {others} are not applicable"),
        }
    }
}
