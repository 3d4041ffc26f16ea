//! Phases of a campaign and the transitions between them.

use std::fmt;

use crate::{
    string_enum::string_enum,
    time::{Timestamp, Window},
};

/// Phase of a campaign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Stored in the ledger, and not opened by an engine yet.
    #[default]
    Draft,
    /// Opened by an engine, before the start of its window.
    Scheduled,
    /// Grants claims.
    Live,
    /// Paused by an operator.
    Paused,
    /// The window is over; claims are no longer granted.
    Ended,
    /// The rest went back to the owner.
    Closed,
}

/// Change of a campaign's phase, or a change that the phase must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An engine opened it.
    Schedule,
    /// The window started.
    Start,
    /// An operator paused it.
    Pause,
    /// An operator resumed it.
    Resume,
    /// The window is over, or an operator ended it early.
    End,
    /// The rest goes back to the owner.
    Close,
    /// The seller raised or lowered the stock; the phase does not change.
    ChangeStock,
    /// Lists show it only on request; the phase does not change.
    Archive,
    /// The seller changed the window, the limit or the price; the recorded phase does not change.
    ChangeTerms,
}

/// A transition that the phase does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a campaign that is {from} cannot {transition}")]
pub struct TransitionError {
    /// Current phase of the campaign.
    pub from: Phase,
    /// Refused transition.
    pub transition: Transition,
}

impl Phase {
    /// The phase after a transition: `draft → scheduled → live → (paused ⇄ live) → ended → closed`, where a
    /// scheduled campaign may also be paused, and a scheduled or paused one may end.
    ///
    /// # Errors
    /// When the transition is not allowed from here.
    pub fn after(self, transition: Transition) -> Result<Self, TransitionError> {
        match (self, transition) {
            (Self::Draft, Transition::Schedule) => Ok(Self::Scheduled),
            (Self::Scheduled, Transition::Start) | (Self::Paused, Transition::Resume) => {
                Ok(Self::Live)
            }
            (Self::Scheduled | Self::Live, Transition::Pause) => Ok(Self::Paused),
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

    /// Phase at an instant, from the recorded phase and the window.
    pub fn at(self, window: Window, now: Timestamp) -> Self {
        match self {
            Self::Scheduled | Self::Paused if now >= window.ends_at() => Self::Ended,
            Self::Scheduled if now >= window.starts_at() => Self::Live,
            recorded => recorded,
        }
    }

    /// Phase of a campaign with `parts` shards; `opened` has the phases of the opened ones. It is a draft until
    /// all have opened, and ended when all have ended.
    pub fn from_parts(parts: usize, opened: &[Self]) -> Self {
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

string_enum!(Phase {
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
            (Scheduled, Pause, Paused),
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
            assert_eq!(Phase::from_parts(3, opened), expected, "{opened:?}");
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
