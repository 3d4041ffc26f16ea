//! Excerpts: some grants and the counters of a campaign that is in no book. They answer requests about these grants.
//! [`Book::decide_absent`](super::Book::decide_absent) decides from them.
//!
//! A large campaign has a million grants, but a request concerns one order or one user. Its rows are found by key, and
//! the code of [`Book`](super::Book) answers from them.

use super::{
    CampaignCounters, CampaignSnapshot, Claim, FormerGrant, InvalidRows, OrderView, PaymentOutcome,
    Setup,
    grants::{Grants, grants_up_to},
    state::CampaignState,
};
use crate::{
    campaign::{AckLevel, Campaign, CampaignKind, Tally},
    id::PaymentRef,
    order::{PartKind, ReturnPart},
    outcome::Outcome,
    time::Timestamp,
};

/// Stored counters of a campaign, which are not summed up from its grants.
#[derive(Debug, Clone, Copy)]
pub struct StoredCampaign<'a> {
    /// Phase and counters of the campaign.
    pub standing: CampaignCounters,
    /// Minor units in a red packet's escrow; 0 for a sale.
    pub escrow_minor: i64,
    /// Number of the last grant; 0 if there is none.
    pub last_number: u32,
    /// Skipped numbers, also after the last one: first and last number of each run, ascending.
    pub skipped: &'a [(u32, u32)],
}

/// A campaign with some of its grants.
#[derive(Debug)]
pub struct Excerpt {
    restored: CampaignSnapshot,
    numbers: Vec<u32>,
}

impl Excerpt {
    /// A campaign without grants. Exactly the grants with these ascending numbers must be added next.
    pub fn new(campaign: Campaign, numbers: &[u32]) -> Self {
        let shares = Vec::new(); // see `set_amounts`
        let setup = Setup { campaign, shares };
        let mut grants = Grants::for_supply(0);
        grants.skip(&gaps(numbers, 0));
        let state = CampaignState::with_grants(&setup, grants);
        Self {
            restored: CampaignSnapshot::part_of(state),
            numbers: numbers.to_vec(),
        }
    }

    /// Sets the amounts of a red packet's shares from number `first` on: minor units, at least those of all shares that
    /// are decided from the excerpt.
    pub fn set_amounts(&mut self, first: u32, shares: &[i64]) {
        self.restored.state_mut().offer.set_amounts(first, shares);
    }

    /// Adds the next grant.
    ///
    /// # Errors
    /// As [`CampaignSnapshot::add`].
    pub fn add(&mut self, grant: &FormerGrant<'_>) -> Result<(), InvalidRows> {
        self.restored.add(grant)
    }

    /// Adds a payment that was received for one of the grants.
    ///
    /// # Errors
    /// As [`CampaignSnapshot::add_payment`].
    pub fn add_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) -> Result<(), InvalidRows> {
        self.restored.add_payment(number, payment, outcome)
    }

    /// Adds a part of one of the grants that was restocked.
    ///
    /// # Errors
    /// As [`CampaignSnapshot::add_part`].
    pub fn add_part(
        &mut self,
        number: u32,
        kind: PartKind,
        part: &ReturnPart,
    ) -> Result<(), InvalidRows> {
        self.restored.add_part(number, kind, part)
    }

    /// Completes the excerpt with the stored counters.
    ///
    /// # Errors
    /// If the counters contradict the campaign's supply or money.
    pub fn finish(mut self, stored: &StoredCampaign<'_>) -> Result<Self, InvalidRows> {
        let grants = grants_up_to(stored.last_number, stored.skipped);
        let mut gaps = gaps(&self.numbers, stored.last_number);
        // Later grants skip the numbers that a restore has skipped.
        let later = |(_, last): &&(u32, u32)| *last > stored.last_number;
        gaps.extend(stored.skipped.iter().filter(later));
        let standing = stored.standing;
        let state = self.restored.state_mut();
        state.grants.skip(&gaps);
        state.grants.lack(grants.saturating_sub(state.grants.len()));
        state.granted = standing.granted;
        if state.offer.kind() == CampaignKind::RedPacket {
            let funded = state.offer.funded_minor();
            state.claimed_minor = funded - standing.refunded_minor - stored.escrow_minor;
        }
        self.restored.take_standing(standing)?;
        self.restored.state_mut().skip_to_held();
        Ok(self)
    }

    pub(super) fn into_state(self) -> Box<CampaignState> {
        self.restored.into_state()
    }

    /// Number of the added grants.
    pub fn grant_count(&self) -> usize {
        self.numbers.len()
    }

    /// Acknowledgement level of the campaign's grants.
    pub fn ack(&self) -> AckLevel {
        self.restored.ack()
    }

    /// Counters of the campaign.
    pub fn tally(&self, now: Timestamp) -> Tally {
        self.restored.tally(now)
    }

    /// An added order, with its owner.
    pub fn order(&self, number: u32) -> Option<OrderView> {
        self.restored.order(number)
    }

    /// As [`Book::peek`](super::Book::peek). All grants of the user must have been added.
    pub fn try_gate_outcome(&self, now: Timestamp, claim: &Claim) -> Option<Outcome> {
        self.restored.try_gate_outcome(now, claim)
    }
}

/// Runs of numbers before and between these, and after them up to `last`: first and last number of each.
fn gaps(numbers: &[u32], last: u32) -> Vec<(u32, u32)> {
    let (mut gaps, mut next) = (Vec::new(), 1_u32);
    for number in numbers {
        if *number > next {
            gaps.push((next, number - 1));
        }
        next = number.saturating_add(1);
    }
    if last >= next {
        gaps.push((next, last));
    }
    gaps
}
