//! Finds the entry for which a ledger refuses a run.

use crate::{
    event::{Entry, Seq},
    ports::{LedgerError, QuarantineCount},
};

/// Maximum refused entries of one partition. At this number another cause is likely, so no further entry enters
/// quarantine.
pub const REFUSED_MAX: u64 = 1_000;

/// Halves a run until its first refused entry is alone. It performs no IO: the caller settles [`Bisect::part`], and
/// reports the result.
#[derive(Debug)]
pub struct QuarantineBisect<'a> {
    rest: &'a [Entry],
    size: usize,
}

impl<'a> QuarantineBisect<'a> {
    /// Begins with the whole run.
    pub fn new(entries: &'a [Entry]) -> Self {
        Self {
            rest: entries,
            size: entries.len(),
        }
    }

    /// Entries to settle next.
    pub fn part(&self) -> &'a [Entry] {
        &self.rest[..self.size.min(self.rest.len())]
    }

    /// Records that the part is settled up to this position. Returns whether entries of the run remain.
    pub fn settled(&mut self, position: Seq) -> bool {
        let old = self
            .rest
            .iter()
            .take_while(|entry| entry.seq <= position)
            .count();
        self.rest = &self.rest[old..];
        self.size = (self.size / 2).max(1);
        old > 0 && !self.rest.is_empty()
    }

    /// Records that the part was refused. If it was a single entry, returns it for quarantine, with the reason.
    /// Otherwise a smaller part comes next.
    ///
    /// # Errors
    /// The same error, if the entries are not its cause.
    pub fn failed(
        &mut self,
        error: LedgerError,
    ) -> Result<Option<(&'a Entry, String)>, LedgerError> {
        // An overflow of a sum counts as a refusal.
        let reason = match &error {
            LedgerError::Damaged { reason } => reason.clone(),
            LedgerError::Overflow => error.to_string(),
            _ => return Err(error),
        };
        match self.part() {
            [] => Err(error),
            [entry] => Ok(Some((entry, reason))),
            part => {
                self.size = part.len() / 2;
                Ok(None)
            }
        }
    }
}

/// Checks that a partition has fewer refused entries in quarantine than [`REFUSED_MAX`]. Waiting ones do not count.
///
/// # Errors
/// If the limit is reached. `reason` is the reason for the next entry.
pub fn check_refused(count: QuarantineCount, reason: &str) -> Result<(), LedgerError> {
    if count.refused < REFUSED_MAX {
        return Ok(());
    }
    let reason = format!("{REFUSED_MAX} entries are in quarantine already, and now: {reason}");
    Err(LedgerError::Damaged { reason })
}
