//! The life of a campaign as it is settled: in one piece, or in parts that open, pause, end and close for
//! themselves, each in the log of its own partition.
//!
//! The logs are settled independently, so what the parts say arrives in any order between them. The campaign's phase
//! follows from the parts' phases alone, whatever that order was.

use qiang_core::{campaign::Phase, event::Event};

use crate::{error::StoreError, rows::KnownCampaign};

/// Where a campaign stands, seen from one partition.
#[derive(Debug)]
pub(crate) struct Life {
    r: i64,
    /// The part's phase where the campaign is spread, and the campaign's where it is not.
    phase: Phase,
    /// Over how many partitions the campaign is spread; 1 if it is not.
    parts: i64,
    /// Whether the part is opened by these entries.
    opened: bool,
    changed: bool,
}

impl Life {
    pub(super) fn of(known: &KnownCampaign) -> Self {
        let phase = if known.parts > 1 {
            known.part.unwrap_or(Phase::Draft)
        } else {
            known.phase
        };
        Self {
            r: known.r,
            phase,
            parts: known.parts,
            opened: false,
            changed: false,
        }
    }

    /// Takes a campaign, or a part of it, out of its draft.
    pub(super) fn open(&mut self, parts: u16) -> Result<(), StoreError> {
        let parts = i64::from(parts).max(1);
        if parts > 1 || self.parts > 1 {
            let first = self.parts <= 1 && self.phase == Phase::Draft;
            if !first && self.parts != parts || self.phase != Phase::Draft {
                return Err(self.damaged(&format!("is opened as one of {parts} parts")));
            }
            self.parts = parts;
            self.opened = true;
        }
        self.phase = Phase::Scheduled;
        self.changed = true;
        Ok(())
    }

    /// Follows an event that says where the campaign, or this part of it, stands.
    pub(super) fn carry(&mut self, event: &Event) -> Result<(), StoreError> {
        self.check_opened()?;
        self.phase = match event {
            Event::Paused => Phase::Paused,
            Event::Resumed => Phase::Scheduled,
            Event::Ended => Phase::Ended,
            Event::Closed { .. } => Phase::Closed,
            _ => return Ok(()),
        };
        self.changed = true;
        Ok(())
    }

    /// Whether this partition has closed its part.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// A part is opened before anything else happens to it.
    pub(super) fn check_opened(&self) -> Result<(), StoreError> {
        if self.parts > 1 && self.phase == Phase::Draft {
            return Err(self.damaged("was never opened"));
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> StoreError {
        let Self {
            r, parts, phase, ..
        } = self;
        StoreError::damaged(format!(
            "campaign #{r}, in {parts} parts, of which this one is {phase}, {what}"
        ))
    }

    /// Whether the campaign is spread over several partitions.
    pub(super) fn is_spread(&self) -> bool {
        self.parts > 1
    }

    /// Over how many partitions these entries say the campaign is spread, if they open a part of it.
    pub(super) fn opened_parts(&self) -> Option<i64> {
        self.opened.then_some(self.parts)
    }

    /// The phase that the campaign, or the part of it, has come to, if it has moved.
    pub(super) fn moved_to(&self) -> Option<Phase> {
        self.changed.then_some(self.phase)
    }

    /// The phase of a campaign whose opened parts are in `phases`.
    pub(super) fn whole(&self, phases: &[Phase]) -> Result<Phase, StoreError> {
        let parts = usize::try_from(self.parts).unwrap_or(0);
        if phases.len() > parts {
            return Err(self.damaged(&format!("has {} parts that are open", phases.len())));
        }
        Ok(Phase::of_parts(parts, phases))
    }
}
