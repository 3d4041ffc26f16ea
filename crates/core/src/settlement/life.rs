//! The life of a campaign as it is settled: in one piece, or in parts that open, pause, end and close by themselves,
//! each in the log of its own partition.
//!
//! The logs are settled independently, so what the parts say arrives in any order between them. The campaign's phase
//! follows from the parts' phases alone, whatever that order was.

use super::rows::KnownCampaign;
use crate::{campaign::Phase, event::Event, rows::Contradiction};

/// Where a campaign stands, seen from one partition.
#[derive(Debug)]
pub(super) struct Life {
    campaign_ref: i64,
    /// The part's phase where the campaign is spread, and the campaign's where it is not.
    phase: Phase,
    /// Over how many partitions the campaign is spread; 1 if it is not.
    parts: i64,
    /// Whether these entries open the part.
    opened: bool,
    changed: bool,
}

impl Life {
    pub(super) fn of(known: &KnownCampaign) -> Self {
        let phase = match known.parts > 1 {
            true => known.part.unwrap_or(Phase::Draft),
            false => known.phase,
        };
        Self {
            campaign_ref: known.campaign_ref,
            phase,
            parts: known.parts,
            opened: false,
            changed: false,
        }
    }

    /// Takes a campaign, or a part of it, out of its draft.
    pub(super) fn open(&mut self, parts: u16) -> Result<(), Contradiction> {
        let parts = i64::from(parts).max(1);
        if parts > 1 || self.parts > 1 {
            let first = self.parts <= 1 && self.phase == Phase::Draft;
            if !first && self.parts != parts || self.phase != Phase::Draft {
                return Err(self.contradiction(&format!("is opened as one of {parts} parts")));
            }
            self.parts = parts;
            self.opened = true;
        } else if self.phase == Phase::Closed {
            // What was left of it went back to the owner: nothing is granted of it again.
            return Err(self.contradiction("is opened again"));
        }
        self.phase = Phase::Scheduled;
        self.changed = true;
        Ok(())
    }

    /// Follows an event that says where the campaign, or this part of it, stands.
    pub(super) fn follow(&mut self, event: &Event) -> Result<(), Contradiction> {
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

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// A part is opened before anything else happens to it.
    pub(super) fn check_opened(&self) -> Result<(), Contradiction> {
        match self.parts > 1 && self.phase == Phase::Draft {
            true => Err(self.contradiction("was never opened")),
            false => Ok(()),
        }
    }

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

    /// The spread campaign whose part has moved, if it is one.
    pub(super) fn moved_spread(&self) -> Option<SpreadCampaign> {
        (self.is_spread() && self.changed).then_some(SpreadCampaign {
            campaign: self.campaign_ref,
            parts: self.parts,
        })
    }

    fn contradiction(&self, what: &str) -> Contradiction {
        Contradiction::new(format!(
            "campaign #{}, in {} parts, of which this one is {}, {what}",
            self.campaign_ref, self.parts, self.phase
        ))
    }
}

/// A spread campaign whose own phase follows from those of its parts, once the part of this partition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadCampaign {
    /// Its `ref`.
    pub campaign: i64,
    parts: i64,
}

impl SpreadCampaign {
    /// The campaign's phase, from those of the parts that have a row.
    ///
    /// # Errors
    /// When there are more of them than parts.
    pub fn phase(&self, parts: &[Phase]) -> Result<Phase, Contradiction> {
        let wanted = usize::try_from(self.parts).unwrap_or(0);
        match parts.len() > wanted {
            true => Err(Contradiction::new(format!(
                "campaign #{}, in {wanted} parts, has {} parts that are open",
                self.campaign,
                parts.len()
            ))),
            false => Ok(Phase::of_parts(wanted, parts)),
        }
    }
}
