//! Phase of a campaign during settlement. A spread campaign has parts, which open, pause, end and close independently,
//! each in the log of its own partition.
//!
//! The logs are settled independently, so events of different parts arrive in any order. The campaign's phase depends
//! only on the phases of its parts, and not on that order.

use super::rows::KnownCampaign;
use crate::{campaign::Phase, event::Event, rows::Contradiction};

/// Phase of a campaign, as one partition knows it.
#[derive(Debug)]
pub(super) struct CampaignLife {
    campaign_ref: i64,
    /// Phase of the part if the campaign is spread, and otherwise of the campaign.
    phase: Phase,
    /// Number of partitions over which the campaign is spread; 1 if it is not.
    parts: i64,
    /// Whether the entries of this run open the part.
    opened: bool,
    changed: bool,
}

impl CampaignLife {
    pub(super) fn from_known_campaign(known: &KnownCampaign) -> Self {
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

    /// Opens a campaign, or a part of it, from its draft.
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
            // Its remainder went back to the owner, so nothing can be granted again.
            return Err(self.contradiction("is opened again"));
        }
        self.phase = Phase::Scheduled;
        self.changed = true;
        Ok(())
    }

    /// Applies an event that changes the phase of the campaign or of this part.
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

    /// Checks that a part was opened before any other event.
    pub(super) fn check_opened(&self) -> Result<(), Contradiction> {
        match self.parts > 1 && self.phase == Phase::Draft {
            true => Err(self.contradiction("was never opened")),
            false => Ok(()),
        }
    }

    pub(super) fn is_spread(&self) -> bool {
        self.parts > 1
    }

    /// Number of parts, if the entries of this run open one.
    pub(super) fn opened_parts(&self) -> Option<i64> {
        self.opened.then_some(self.parts)
    }

    /// New phase of the campaign or part, if it has changed.
    pub(super) fn moved_to(&self) -> Option<Phase> {
        self.changed.then_some(self.phase)
    }

    /// The spread campaign with a changed part, if this is one.
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

/// A spread campaign whose phase must be derived from its parts, after this partition's part is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadCampaign {
    /// `ref` of the campaign.
    pub campaign: i64,
    parts: i64,
}

impl SpreadCampaign {
    /// Phase of the campaign, derived from the parts that have a row.
    ///
    /// # Errors
    /// If there are more rows than parts.
    pub fn phase(&self, parts: &[Phase]) -> Result<Phase, Contradiction> {
        let wanted = usize::try_from(self.parts).unwrap_or(0);
        match parts.len() > wanted {
            true => Err(Contradiction::new(format!(
                "campaign #{}, in {wanted} parts, has {} parts that are open",
                self.campaign,
                parts.len()
            ))),
            false => Ok(Phase::from_parts(wanted, parts)),
        }
    }
}
