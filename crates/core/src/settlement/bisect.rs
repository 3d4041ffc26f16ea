//! Finding the entry because of which a ledger refuses a run.

use crate::{
    event::{Entry, Seq},
    ports::{LedgerError, QuarantineCount},
};

/// Entries of one partition that may be refused before something else must be wrong: then nothing more goes into
/// quarantine.
pub const REFUSED_MAX: u64 = 1_000;

/// Halves a run until its first entry that the ledger refuses stands alone. It does no IO: whoever drives it settles
/// [`Bisect::part`], and says what came of it.
#[derive(Debug)]
pub struct Bisect<'a> {
    rest: &'a [Entry],
    size: usize,
}

impl<'a> Bisect<'a> {
    /// Begins with the whole run.
    pub fn new(entries: &'a [Entry]) -> Self {
        Self {
            rest: entries,
            size: entries.len(),
        }
    }

    /// What is to be settled next.
    pub fn part(&self) -> &'a [Entry] {
        &self.rest[..self.size.min(self.rest.len())]
    }

    /// The part is settled, up to this position; returns whether there is more of the run.
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

    /// The part was not settled. Returns the entry that goes into quarantine, with the reason, if it stood alone;
    /// otherwise a smaller part comes next.
    ///
    /// # Errors
    /// The same error, if it is not about the entries.
    pub fn failed(
        &mut self,
        error: LedgerError,
    ) -> Result<Option<(&'a Entry, String)>, LedgerError> {
        // A sum that leaves its range is a refusal like any other.
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

/// Refuses a partition more entries in quarantine than [`REFUSED_MAX`], beside those that wait.
///
/// # Errors
/// When there are as many already; `reason` is why there would be one more.
pub fn check_refused(count: QuarantineCount, reason: &str) -> Result<(), LedgerError> {
    if count.refused < REFUSED_MAX {
        return Ok(());
    }
    let reason = format!("{REFUSED_MAX} entries are in quarantine already, and now: {reason}");
    Err(LedgerError::Damaged { reason })
}
