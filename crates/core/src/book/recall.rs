//! Campaigns that leave a book, and come back into it.
//!
//! A book needs only the campaigns to which something happens. One that nobody asks for may leave once the ledger has
//! everything of it; who asks again has it brought back from there, and nothing tells it from one that never left.

use super::{Book, Claim, OrderView, PaymentOutcome, Setup, grants::NewGrant, state::State};
use crate::{
    campaign::{CampaignKind, Phase, Tally},
    event::Seq,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, ReturnPart},
    outcome::Outcome,
    time::Timestamp,
};

/// Rows from which no campaign can be made again, because they contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsound {
    /// What was found.
    pub reason: String,
}

impl Unsound {
    fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// Where a campaign stands, beside its grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// As recorded, without what follows from the time.
    pub phase: Phase,
    /// Units that users have.
    pub granted: u64,
    /// Units that went back to the owner.
    pub returned: u64,
    /// Minor units that went back to the owner.
    pub refunded_minor: i64,
}

/// A grant that was made before.
#[derive(Debug, Clone, Copy)]
pub struct FormerGrant<'a> {
    /// Its number, from 1, without gaps except for skipped numbers.
    pub number: u32,
    /// Who has it.
    pub user: &'a UserId,
    /// Units.
    pub quantity: u32,
    /// Minor units: a share's amount, or an order's price.
    pub amount_minor: i64,
    /// Since when.
    pub granted_at: Timestamp,
    /// The claim's key, if it had one and is for an order: no share is found by its key.
    pub key: Option<&'a IdempotencyKey>,
    /// Where an order stands; [`OrderState::Held`] for a share.
    pub state: OrderState,
    /// Units of a paid order that were returned. All are of an order that is returned, whatever this says.
    pub returned: u32,
}

/// A campaign outside of a book, as it stood behind an entry of the log.
#[derive(Debug)]
pub struct Restored {
    state: Box<State>,
    standing: Option<Standing>,
    upto: Seq,
}

impl Restored {
    /// A campaign of which the log has no entry up to `upto`: it has not opened.
    pub fn unopened(setup: Setup, upto: Seq) -> Self {
        Self {
            state: Box::new(State::new(&setup)),
            standing: None,
            upto,
        }
    }

    /// A campaign that has opened, without its grants so far, behind the entry `upto`.
    pub fn opened(setup: Setup, standing: Standing, upto: Seq) -> Self {
        let mut state = Box::new(State::new(&setup));
        state.touched = upto;
        Self {
            state,
            standing: Some(standing),
            upto,
        }
    }

    /// A campaign of which some grants are left out: it comes into no book.
    pub(super) fn part_of(state: State) -> Self {
        Self {
            state: Box::new(state),
            standing: None,
            upto: 0,
        }
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// The same campaign without grants, which skips these numbers: the first and last of each run, in their order. A
    /// share's number says what it is worth: a packet skips none.
    #[must_use]
    pub fn skipping(mut self, numbers: &[(u32, u32)]) -> Self {
        if self.state.offer.kind() == CampaignKind::Sale {
            self.state.grants.skip(numbers);
        }
        self
    }

    /// Adds the next grant.
    ///
    /// # Errors
    /// When it is not the next one, or does not fit the campaign.
    pub fn add(&mut self, grant: &FormerGrant<'_>) -> Result<(), Unsound> {
        let (state, number) = (&mut self.state, grant.number);
        if !state.grants.has_room() || number != state.grants.next_number() {
            return Err(self.bad(&format!("grant {number} is not the next one")));
        }
        let drawn = state.offer.drawn(number);
        if drawn.is_some_and(|drawn| drawn != grant.amount_minor) {
            return Err(self.bad(&format!("share {number} has another amount")));
        }
        let new = NewGrant {
            user: grant.user,
            quantity: grant.quantity,
            amount_minor: grant.amount_minor,
            key: grant.key,
            granted_at: grant.granted_at,
        };
        let found = state.grants.find(grant.user);
        state.grants.push(state.offer.supply(), found, &new);
        if grant.state != OrderState::Held {
            state.grants.set_state(number, grant.state);
        }
        let returned = match grant.state {
            OrderState::Returned => grant.quantity,
            OrderState::Paid if grant.returned < grant.quantity => grant.returned,
            OrderState::Held | OrderState::Cancelled | OrderState::Expired
                if grant.returned == 0 =>
            {
                0
            }
            _ => return Err(self.bad(&format!("order {number} has other units than it returned"))),
        };
        state.grants.return_units(number, returned);
        if state.offer.kind() == CampaignKind::RedPacket {
            state.claimed_minor = state.claimed_minor.saturating_add(grant.amount_minor);
        }
        if state.keeps_units(state.grants.row(number)) {
            state.granted += u64::from(grant.quantity - returned);
        }
        Ok(())
    }

    /// Adds a payment that arrived for one of the grants.
    ///
    /// # Errors
    /// When there is no such order.
    pub fn add_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) -> Result<(), Unsound> {
        if self.state.order(number).is_none() {
            return Err(self.bad(&format!("payment {payment} is for no order")));
        }
        self.state.note_payment(number, payment, outcome);
        Ok(())
    }

    /// Adds a partial return of a grant. The grant's returned units include its units.
    ///
    /// # Errors
    /// When there is no such order.
    pub fn add_return(&mut self, number: u32, part: &ReturnPart) -> Result<(), Unsound> {
        if self.state.order(number).is_none() {
            return Err(self.bad(&format!(
                "order {number}, which was returned in part, is none"
            )));
        }
        self.state
            .payments
            .note_return(number, &part.key, part.quantity);
        Ok(())
    }

    /// The campaign with all its grants.
    ///
    /// # Errors
    /// When they do not come to the numbers that the campaign has.
    pub fn finish(mut self) -> Result<Self, Unsound> {
        let Some(standing) = self.standing.take() else {
            return Ok(self);
        };
        if self.state.granted != standing.granted {
            return Err(self.bad("its grants do not come to the units that users have"));
        }
        self.take_standing(standing)?;
        self.state.skip_to_held();
        Ok(self)
    }

    /// Has the campaign stand so, with the units and the money that users have.
    pub(super) fn take_standing(&mut self, standing: Standing) -> Result<(), Unsound> {
        let supply = self.state.offer.supply();
        let gone = standing.granted.checked_add(standing.returned);
        let Some(left) = gone.and_then(|gone| supply.checked_sub(gone)) else {
            return Err(self.bad("users and owner have more than there was"));
        };
        let state = &mut self.state;
        state.phase = standing.phase;
        state.returned = standing.returned;
        state.refunded_minor = standing.refunded_minor;
        state.remaining = left;
        let is_over = standing.phase == Phase::Closed;
        let tally = state.tally_at(Timestamp::default());
        let left_over = is_over && (tally.remaining, tally.remaining_minor) != (0, 0);
        if !tally.conserves() || tally.remaining_minor < 0 || left_over {
            return Err(self.bad("it does not add up"));
        }
        Ok(())
    }

    /// The same; no entry up to `upto` is about it that it does not contain.
    #[must_use]
    pub fn known_upto(mut self, upto: Seq) -> Self {
        self.upto = self.upto.max(upto);
        self
    }

    /// The last entry of the log that it may contain.
    pub fn upto(&self) -> Seq {
        self.upto
    }

    /// How many grants it has.
    pub fn len(&self) -> u32 {
        self.state.grants.len()
    }

    /// Whether nothing was granted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its numbers.
    pub fn tally(&self, now: Timestamp) -> Tally {
        self.state.tally_at(now)
    }

    /// An order and whose it is.
    pub fn order(&self, number: u32) -> Option<OrderView> {
        self.state.order(number)
    }

    /// As [`Book::peek`].
    pub fn peek(&self, now: Timestamp, claim: &Claim) -> Option<Outcome> {
        self.state.answer(claim, now).ok()?.1
    }

    fn bad(&self, what: &str) -> Unsound {
        Unsound::new(format!("campaign {}: {what}", self.state.id))
    }
}

impl Book {
    /// Whether a campaign is in the book.
    pub fn has(&self, campaign: CampaignId) -> bool {
        self.campaigns.contains_key(&campaign)
    }

    /// How many campaigns are in the book.
    pub fn len(&self) -> usize {
        self.campaigns.len()
    }

    /// Whether no campaign is in the book.
    pub fn is_empty(&self) -> bool {
        self.campaigns.is_empty()
    }

    /// Begins behind an entry of the log, without any of the campaigns up to it.
    pub fn begin_at(&mut self, seq: Seq) {
        self.head = seq;
        self.absent_upto = seq;
    }

    /// Takes a campaign out, unless an entry behind `settled` is about it. What its holds and its window make due is
    /// remembered.
    pub fn retire(&mut self, campaign: CampaignId, settled: Seq) -> Option<Restored> {
        let touched = self.campaigns.get(&campaign)?.touched;
        // One that was never opened is nowhere else.
        if touched == 0 || touched > settled {
            return None;
        }
        let mut state = self.campaigns.remove(&campaign)?;
        state.due = None;
        self.absent_upto = self.absent_upto.max(touched);
        Some(Restored {
            upto: touched,
            state,
            standing: None,
        })
    }

    /// Takes a campaign back. False where an entry that it does not contain may be about it: it has to be read again.
    /// One that is here already stays as it is.
    pub fn recall(&mut self, now: Timestamp, restored: Restored) -> bool {
        let id = restored.state.id;
        if self.has(id) {
            return true;
        }
        if restored.upto < self.absent_upto {
            return false;
        }
        let mut state = restored.state;
        state.used.mark(now);
        self.agenda.reschedule(&mut state);
        self.campaigns.insert(id, state);
        true
    }

    /// Notes when a campaign that is not in the book needs a tick.
    pub fn expect(&mut self, due: Timestamp, campaign: CampaignId) {
        self.agenda.due.insert((due, campaign));
    }

    /// Campaigns that are due and not in the book, up to `limit`. A tick passes them over.
    pub fn due_and_absent(&self, now: Timestamp, limit: usize) -> Vec<CampaignId> {
        let due = self.agenda.due.iter().take_while(|(due, _)| *due <= now);
        due.map(|(_, id)| *id)
            .filter(|id| !self.has(*id))
            .take(limit)
            .collect()
    }

    /// Forgets what was due of a campaign that is not in the book and cannot be brought back.
    pub fn dismiss(&mut self, now: Timestamp, campaign: CampaignId) {
        let due = self.agenda.due.iter().take_while(|(due, _)| *due <= now);
        let of_it: Vec<_> = due.filter(|(_, id)| *id == campaign).copied().collect();
        for key in of_it {
            self.agenda.due.remove(&key);
        }
    }

    /// Since when nobody has asked for a campaign, to the minute.
    pub fn idle_since(&self, campaign: CampaignId) -> Option<Timestamp> {
        Some(self.campaigns.get(&campaign)?.used.at())
    }

    /// When a campaign in the book needs its next tick.
    pub fn due_of(&self, campaign: CampaignId) -> Option<Timestamp> {
        self.campaigns.get(&campaign)?.due
    }
}
