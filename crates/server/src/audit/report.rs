//! What an audit found.

use std::fmt;

use serde::Serialize;

/// Offending rows that a check tells; more are only counted.
const OFFENDING_MAX: usize = 20;

/// What an audit found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether every check holds.
    pub(crate) ok: bool,
    /// All checks, in the order in which they were made.
    pub(crate) checks: Vec<Check>,
}

/// What one check found.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// Its name: that of its file.
    pub(crate) name: &'static str,
    /// Whether nothing offends.
    pub(crate) ok: bool,
    /// How many rows it looked at.
    pub(crate) examined: u64,
    /// What offends, a line each: the first of them.
    pub(crate) offending: Vec<String>,
    /// How many offend.
    pub(crate) offending_total: u64,
}

impl Report {
    pub(super) fn new(checks: Vec<Check>) -> Self {
        Self {
            ok: checks.iter().all(|check| check.ok),
            checks,
        }
    }
}

impl Check {
    pub(super) fn new(name: &'static str, examined: u64) -> Self {
        Self {
            name,
            ok: true,
            examined,
            offending: Vec::new(),
            offending_total: 0,
        }
    }

    pub(super) fn examine(&mut self) {
        self.examined += 1;
    }

    pub(super) fn offend(&mut self, what: String) {
        self.ok = false;
        self.offending_total += 1;
        if self.offending.len() < OFFENDING_MAX {
            self.offending.push(what);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:>12}  result", "check", "examined")?;
        for check in &self.checks {
            write!(f, "{:<20} {:>12}  ", check.name, check.examined)?;
            match check.offending_total {
                0 => writeln!(f, "ok")?,
                offending => writeln!(f, "BROKEN: {offending}")?,
            }
        }
        for check in self.checks.iter().filter(|check| !check.ok) {
            writeln!(f, "\n{}:", check.name)?;
            for line in &check.offending {
                writeln!(f, "  {line}")?;
            }
            let untold = check.offending_total - check.offending.len() as u64;
            if untold > 0 {
                writeln!(f, "  and {untold} more")?;
            }
        }
        let broken = self.checks.iter().filter(|check| !check.ok).count();
        match broken {
            0 => write!(f, "\nok: {} checks hold", self.checks.len()),
            _ => write!(f, "\nBROKEN: {broken} of {} checks", self.checks.len()),
        }
    }
}
