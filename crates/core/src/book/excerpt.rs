//! Some grants of a campaign that is in no book, with its numbers: enough to answer about these grants.
//!
//! A large campaign has a million grants, and a question about it concerns one order or one user. What the answer
//! follows from is found by key, and the same code answers as in a [`Book`](super::Book).

use super::{
    Claim, FormerGrant, OrderView, PaymentOutcome, Restored, Setup, Standing, Unsound,
    grants::{Grants, grants_up_to},
    state::State,
};
use crate::{
    campaign::{Campaign, CampaignKind, Tally},
    id::PaymentRef,
    outcome::Outcome,
    time::Timestamp,
};

/// Numbers of a campaign that are not summed up from its grants, but stored.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// Where the campaign stands.
    pub standing: Standing,
    /// Minor units in a packet's escrow; 0 for a sale.
    pub escrow_minor: i64,
    /// The number of the last grant; 0 where there is none.
    pub last_number: u32,
    /// Numbers up to there that no grant has: the first and last of each run, in their order.
    pub skipped: &'a [(u32, u32)],
}

/// A campaign with some of its grants.
#[derive(Debug)]
pub struct Excerpt {
    restored: Restored,
    grants: u32,
}

impl Excerpt {
    /// A campaign of which the grants with these numbers are added next, in ascending order, and no others.
    pub fn new(campaign: Campaign, numbers: &[u32]) -> Self {
        let shares = Vec::new(); // what shares are worth that nobody has is asked of a book
        let setup = Setup { campaign, shares };
        let mut grants = Grants::for_supply(0);
        grants.skip(&gaps(numbers));
        let state = State::with_grants(&setup, grants);
        Self {
            restored: Restored::part_of(state),
            grants: 0,
        }
    }

    /// Adds the next grant.
    ///
    /// # Errors
    /// As [`Restored::add`].
    pub fn add(&mut self, grant: &FormerGrant<'_>) -> Result<(), Unsound> {
        self.restored.add(grant)
    }

    /// Adds a payment that arrived for one of the grants.
    ///
    /// # Errors
    /// As [`Restored::add_payment`].
    pub fn add_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) -> Result<(), Unsound> {
        self.restored.add_payment(number, payment, outcome)
    }

    /// The campaign with its stored numbers.
    ///
    /// # Errors
    /// When they do not come to what there was.
    pub fn finish(mut self, stored: &Stored<'_>) -> Result<Self, Unsound> {
        self.grants = grants_up_to(stored.last_number, stored.skipped);
        let standing = stored.standing;
        let state = self.restored.state_mut();
        state.granted = standing.granted;
        if state.offer.kind() == CampaignKind::RedPacket {
            let funded = state.offer.funded_minor();
            state.claimed_minor = funded - standing.refunded_minor - stored.escrow_minor;
        }
        self.restored.take_standing(standing)?;
        Ok(self)
    }

    /// The campaign's numbers.
    pub fn tally(&self, now: Timestamp) -> Tally {
        Tally {
            grants: self.grants,
            ..self.restored.tally(now)
        }
    }

    /// An order that was added, and whose it is.
    pub fn order(&self, number: u32) -> Option<OrderView> {
        self.restored.order(number)
    }

    /// As [`Book::peek`](super::Book::peek), for a user of whom all grants were added.
    pub fn peek(&self, now: Timestamp, claim: &Claim) -> Option<Outcome> {
        self.restored.peek(now, claim)
    }
}

/// Runs of numbers before and between these: the first and last of each.
fn gaps(numbers: &[u32]) -> Vec<(u32, u32)> {
    let (mut gaps, mut next) = (Vec::new(), 1_u32);
    for number in numbers {
        if *number > next {
            gaps.push((next, number - 1));
        }
        next = number.saturating_add(1);
    }
    gaps
}
