//! Gate: answers claims from a campaign's state without a decision, for engines and for the nodes in front of them.
//!
//! Only this module decides whether a claim ends in `paused`, `not_started`, `ended`, `limit_reached` or `sold_out`.
//! The book checks it before each decision. If a campaign grants nothing, a node answers from a cached [`CampaignGate`]
//! without the engine.

use crate::{
    campaign::{Phase, Tally},
    outcome::Outcome,
    time::{Timestamp, Window},
};

/// Maximum number of cancelled, expired or returned orders per user and sale. Further claims of the user are answered
/// `limit_reached`; otherwise one user could fill the log by claiming and cancelling.
pub const RETURNED_ORDERS_PER_USER_MAX: usize = 16;

/// Units and orders of a user in one campaign. The default is a user without grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateHolding {
    /// Units that the user has.
    pub units: u32,
    /// Orders of the user that were cancelled, expired or returned.
    pub returned_orders: usize,
}

impl GateHolding {
    /// Sum of both.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            units: self.units + other.units,
            returned_orders: self.returned_orders + other.returned_orders,
        }
    }
}

/// Facts that decide a claim that replays no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignGate {
    /// Time in which claims are accepted.
    pub window: Window,
    /// Units that one user may have.
    pub per_user_limit: u32,
    /// Recorded phase; the gate adds changes by the window.
    pub phase: Phase,
    /// Remaining units.
    pub remaining: u64,
}

impl CampaignGate {
    /// Gate of a campaign from the counters of its shards. Returns `None` if the shards are in different phases, or if
    /// the campaign has ended and is not closed. Such counters do not show whether it was paused before.
    pub fn from_parts<'a>(
        window: Window,
        per_user_limit: u32,
        parts: impl IntoIterator<Item = &'a Tally>,
    ) -> Option<Self> {
        let mut parts = parts.into_iter();
        let first = parts.next()?;
        let mut remaining = first.remaining;
        for part in parts {
            if part.phase != first.phase {
                return None;
            }
            remaining += part.remaining;
        }
        Some(Self {
            window,
            per_user_limit,
            phase: match first.phase {
                Phase::Ended => return None,
                // The window decides when it is live.
                Phase::Live => Phase::Scheduled,
                phase => phase,
            },
            remaining,
        })
    }

    /// Outcome of a claim that replays no grant; `None` if it must be granted.
    #[inline]
    pub fn answer(&self, quantity: u32, holding: GateHolding, now: Timestamp) -> Option<Outcome> {
        let starts_at = self.window.starts_at();
        match self.phase_for_claims(now) {
            Phase::Paused => return Some(Outcome::Paused),
            Phase::Draft | Phase::Scheduled => return Some(Outcome::NotStarted { starts_at }),
            Phase::Ended | Phase::Closed => return Some(Outcome::Ended),
            Phase::Live => {}
        }
        let (limit, held) = (self.per_user_limit, holding.units);
        if quantity > limit.saturating_sub(held)
            || holding.returned_orders >= RETURNED_ORDERS_PER_USER_MAX
        {
            return Some(Outcome::LimitReached { limit, held });
        }
        let remaining = self.remaining;
        (u64::from(quantity) > remaining).then_some(Outcome::SoldOut { remaining })
    }

    /// Outcome of a claim of a user without grants, from a node's cached copy. Returns `None` if only the engine can
    /// decide: the claim may be granted, or the outcome differs within `margin_ms`, the maximum error of the node's
    /// clock. Units that remained at the time of the copy may be taken since, so `sold_out` is only answered if none
    /// remained.
    pub fn answer_newcomer(
        &self,
        quantity: u32,
        now: Timestamp,
        margin_ms: i64,
    ) -> Option<Outcome> {
        let at = |now| self.answer(quantity, GateHolding::default(), now);
        let outcome = at(now.plus_millis(-margin_ms))?;
        let is_certain = !matches!(outcome, Outcome::SoldOut { remaining: 1.. });
        (is_certain && at(now.plus_millis(margin_ms)) == Some(outcome)).then_some(outcome)
    }

    /// Whether no claim can be granted at this instant.
    pub fn is_inactive(&self, now: Timestamp) -> bool {
        self.remaining == 0 || self.phase_for_claims(now) != Phase::Live
    }

    /// Phase that decides claims. `paused` precedes `ended`: a paused campaign whose window is over stays paused for
    /// claims until a tick closes it.
    fn phase_for_claims(&self, now: Timestamp) -> Phase {
        match self.phase {
            Phase::Paused => Phase::Paused,
            phase => phase.at(self.window, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: i64 = 1_000;
    const ENDS: i64 = 2_000;
    const STARTS_AT: Timestamp = Timestamp::from_millis(STARTS);

    fn gate(phase: Phase, remaining: u64) -> CampaignGate {
        CampaignGate {
            window: Window::new(STARTS_AT, Timestamp::from_millis(ENDS)).unwrap(),
            per_user_limit: 3,
            phase,
            remaining,
        }
    }

    fn tally(phase: Phase, remaining: u64) -> Tally {
        Tally {
            phase,
            supply: 10,
            granted: 10 - remaining,
            remaining,
            returned: 0,
            withheld: 0,
            funded_minor: 0,
            claimed_minor: 0,
            remaining_minor: 0,
            refunded_minor: 0,
            withheld_minor: 0,
            grants: 0,
            terms: None,
        }
    }

    #[track_caller]
    fn check(phase: Phase, remaining: u64, quantity: u32, now: i64, expected: Option<Outcome>) {
        let now = Timestamp::from_millis(now);
        let answer = gate(phase, remaining).answer(quantity, GateHolding::default(), now);
        assert_eq!(answer, expected);
    }

    #[test]
    fn outcomes_stand_in_their_order_of_precedence() {
        let not_started = Some(Outcome::NotStarted {
            starts_at: STARTS_AT,
        });
        let limit = Some(Outcome::LimitReached { limit: 3, held: 0 });
        let sold_out = |remaining| Some(Outcome::SoldOut { remaining });
        check(Phase::Scheduled, 0, 9, STARTS - 1, not_started);
        check(Phase::Scheduled, 0, 9, STARTS, limit);
        check(Phase::Scheduled, 0, 3, STARTS, sold_out(0));
        check(Phase::Scheduled, 2, 3, ENDS - 1, sold_out(2));
        check(Phase::Scheduled, 3, 3, ENDS - 1, None);
        check(Phase::Scheduled, 3, 3, ENDS, Some(Outcome::Ended));
        check(Phase::Paused, 0, 9, STARTS, Some(Outcome::Paused));
        check(Phase::Paused, 3, 1, ENDS, Some(Outcome::Paused));
        check(Phase::Closed, 3, 1, STARTS, Some(Outcome::Ended));
    }

    #[test]
    fn holdings_and_returned_orders_count_against_the_limit() {
        let answer = |units, returned_orders| {
            let holding = GateHolding {
                units,
                returned_orders,
            };
            gate(Phase::Scheduled, 9).answer(2, holding, STARTS_AT)
        };
        let reached = |held| Some(Outcome::LimitReached { limit: 3, held });
        assert_eq!(answer(1, RETURNED_ORDERS_PER_USER_MAX - 1), None);
        assert_eq!(answer(1, RETURNED_ORDERS_PER_USER_MAX), reached(1));
        assert_eq!(answer(2, 0), reached(2));
    }

    #[test]
    fn a_copy_is_silent_near_the_edges_and_about_units_that_were_left() {
        let newcomer = |remaining, now| {
            let now = Timestamp::from_millis(now);
            gate(Phase::Scheduled, remaining).answer_newcomer(2, now, 200)
        };
        let name = |answer: Option<Outcome>| answer.map(|outcome| outcome.name());
        for (now, expected) in [
            (STARTS - 201, Some("not_started")),
            (STARTS - 200, None),
            (STARTS + 199, None),
            (STARTS + 200, Some("sold_out")),
            (ENDS - 201, Some("sold_out")),
            (ENDS - 200, None),
            (ENDS + 200, Some("ended")),
        ] {
            assert_eq!(name(newcomer(0, now)), expected, "at {now}");
        }
        assert_eq!(newcomer(1, STARTS + 500), None);
        assert_eq!(newcomer(2, STARTS + 500), None);
    }

    #[test]
    fn parts_make_a_whole_only_when_they_agree() {
        let window = gate(Phase::Scheduled, 0).window;
        let whole = |parts: &[Tally]| CampaignGate::from_parts(window, 3, parts);

        let live = [tally(Phase::Live, 0), tally(Phase::Live, 2)];
        assert_eq!(whole(&live), Some(gate(Phase::Scheduled, 2)));
        let paused = [tally(Phase::Paused, 1), tally(Phase::Paused, 0)];
        assert_eq!(whole(&paused), Some(gate(Phase::Paused, 1)));
        assert_eq!(
            whole(&[tally(Phase::Live, 0), tally(Phase::Paused, 0)]),
            None
        );
        assert_eq!(whole(&[tally(Phase::Ended, 0)]), None);
        assert_eq!(whole(&[]), None);
    }

    #[test]
    fn a_campaign_is_inactive_unless_it_is_live_and_has_units() {
        let inactive = |phase, remaining| gate(phase, remaining).is_inactive(STARTS_AT);
        assert!(!inactive(Phase::Scheduled, 1));
        assert!(inactive(Phase::Scheduled, 0));
        assert!(inactive(Phase::Paused, 1));
        assert!(inactive(Phase::Closed, 1));
        let early = STARTS_AT.plus_millis(-1);
        assert!(gate(Phase::Scheduled, 1).is_inactive(early));
    }
}
