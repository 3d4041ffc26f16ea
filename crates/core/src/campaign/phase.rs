//! A campaign's life: its phases and what leads from one to the next.

use std::fmt;

use crate::{
    time::{Timestamp, Window},
    words::words,
};

/// Where a campaign stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// In the ledger, not yet known to an engine.
    #[default]
    Draft,
    /// Waiting for its window.
    Scheduled,
    /// Handing out.
    Live,
    /// Stopped by an operator, for now.
    Paused,
    /// The window is over; nothing is handed out any more.
    Ended,
    /// What was left has gone back to the owner.
    Closed,
}

/// What can happen to a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An engine has taken it up.
    Schedule,
    /// The window opened.
    Start,
    /// An operator stopped it.
    Pause,
    /// An operator let it go on.
    Resume,
    /// The window is over, or an operator ended it early.
    End,
    /// What was left goes back.
    Close,
    /// The seller raised or lowered the stock; the phase stays.
    ChangeStock,
    /// Lists show it no more unless asked; the phase stays.
    Archive,
    /// The seller changed the window, the limit or the price; what was recorded of the phase stays.
    ChangeTerms,
}

/// A transition that the phase does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a campaign that is {from} cannot {transition}")]
pub struct TransitionError {
    /// Where the campaign stands.
    pub from: Phase,
    /// What was asked.
    pub transition: Transition,
}

impl Phase {
    /// The phase after a transition: `draft → scheduled → live → (paused ⇄ live) → ended → closed`, where a
    /// scheduled or paused campaign may also end.
    ///
    /// # Errors
    /// When the transition is not allowed from here.
    pub fn after(self, transition: Transition) -> Result<Self, TransitionError> {
        match (self, transition) {
            (Self::Draft, Transition::Schedule) => Ok(Self::Scheduled),
            (Self::Scheduled, Transition::Start) | (Self::Paused, Transition::Resume) => {
                Ok(Self::Live)
            }
            (Self::Live, Transition::Pause) => Ok(Self::Paused),
            (Self::Scheduled | Self::Live | Self::Paused, Transition::End) => Ok(Self::Ended),
            (Self::Ended, Transition::Close) => Ok(Self::Closed),
            (
                Self::Scheduled | Self::Live | Self::Paused,
                Transition::ChangeStock | Transition::ChangeTerms,
            ) => Ok(self),
            (Self::Closed, Transition::Archive) => Ok(self),
            (from, transition) => Err(TransitionError { from, transition }),
        }
    }

    /// The phase at an instant: what was recorded, and what the window makes of it.
    pub fn at(self, window: Window, now: Timestamp) -> Self {
        match self {
            Self::Scheduled | Self::Paused if now >= window.ends_at() => Self::Ended,
            Self::Scheduled if now >= window.starts_at() => Self::Live,
            recorded => recorded,
        }
    }

    /// The phase of a campaign in `parts` parts, of which those that have opened are in `opened`: it is a draft until
    /// all have, and over when all are.
    pub fn of_parts(parts: usize, opened: &[Self]) -> Self {
        let over = |phase: &Self| matches!(phase, Self::Ended | Self::Closed);
        if opened.len() < parts {
            Self::Draft
        } else if opened.iter().all(|phase| *phase == Self::Closed) {
            Self::Closed
        } else if opened.iter().all(over) {
            Self::Ended
        } else if opened.contains(&Self::Paused) {
            Self::Paused
        } else {
            Self::Scheduled
        }
    }
}

words!(Phase {
    Draft = "draft",
    Scheduled = "scheduled",
    Live = "live",
    Paused = "paused",
    Ended = "ended",
    Closed = "closed",
});

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schedule => "be scheduled",
            Self::Start => "start",
            Self::Pause => "be paused",
            Self::Resume => "be resumed",
            Self::End => "end",
            Self::Close => "be closed",
            Self::ChangeStock => "have its stock changed",
            Self::Archive => "be archived",
            Self::ChangeTerms => "have its terms changed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase::*, *};

    #[test]
    fn every_transition_from_every_phase() {
        use Transition::{
            Archive, ChangeStock, ChangeTerms, Close, End, Pause, Resume, Schedule, Start,
        };
        let allowed = [
            (Draft, Schedule, Scheduled),
            (Scheduled, Start, Live),
            (Live, Pause, Paused),
            (Paused, Resume, Live),
            (Scheduled, End, Ended),
            (Live, End, Ended),
            (Paused, End, Ended),
            (Ended, Close, Closed),
            (Scheduled, ChangeStock, Scheduled),
            (Live, ChangeStock, Live),
            (Paused, ChangeStock, Paused),
            (Closed, Archive, Closed),
            (Scheduled, ChangeTerms, Scheduled),
            (Live, ChangeTerms, Live),
            (Paused, ChangeTerms, Paused),
        ];
        for from in [Draft, Scheduled, Live, Paused, Ended, Closed] {
            for transition in [
                Schedule,
                Start,
                Pause,
                Resume,
                End,
                Close,
                ChangeStock,
                ChangeTerms,
                Archive,
            ] {
                let expected = allowed
                    .iter()
                    .find(|a| (a.0, a.1) == (from, transition))
                    .map(|a| a.2);
                assert_eq!(from.after(transition).ok(), expected, "{from} {transition}");
            }
        }
    }

    #[test]
    fn a_campaign_follows_its_parts() {
        let check = |opened: &[Phase], expected| {
            assert_eq!(Phase::of_parts(3, opened), expected, "{opened:?}");
        };
        check(&[], Draft);
        check(&[Scheduled, Closed], Draft);
        check(&[Scheduled, Scheduled, Scheduled], Scheduled);
        check(&[Scheduled, Paused, Closed], Paused);
        check(&[Scheduled, Ended, Closed], Scheduled);
        check(&[Ended, Closed, Ended], Ended);
        check(&[Closed, Closed, Closed], Closed);
    }
}
