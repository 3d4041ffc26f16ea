//! Eviction of campaigns from a book, and their reload.
//!
//! A book needs only active campaigns. An idle campaign may be evicted once the ledger has all its data. A later
//! request reloads it from the ledger, or is decided from an excerpt of it. Callers observe no difference.

use std::collections::HashSet;

use super::{
    Book, Claim, OrderView, PaymentOutcome, Setup,
    grants::NewGrant,
    state::{CampaignState, Due},
};
use crate::{
    campaign::{AckLevel, CampaignKind, Phase, Tally},
    event::Seq,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, PartKind, ReturnPart},
    outcome::Outcome,
    time::Timestamp,
};

/// Error of rows that contradict each other, so that no campaign can be restored from them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidRows {
    /// Contradiction that was found.
    pub reason: String,
}

impl InvalidRows {
    fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// Phase and counters of a campaign, without its grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignCounters {
    /// Recorded phase, without changes that are due by time.
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
    /// User who has it.
    pub user: &'a UserId,
    /// Units.
    pub quantity: u32,
    /// Minor units: a share's amount, or an order's price.
    pub amount_minor: i64,
    /// Time of the grant.
    pub granted_at: Timestamp,
    /// Key of the claim for an order, if it had one. Shares are not found by key.
    pub key: Option<&'a IdempotencyKey>,
    /// State of an order; [`OrderState::Held`] for a share.
    pub state: OrderState,
    /// Returned units of a paid order. Ignored for a returned order, whose units are all returned.
    pub returned: u32,
    /// Units of an order that were cancelled while it was held. Units and amount are without them.
    pub cancelled: u32,
    /// Milliseconds by which the hold of an order was extended; 0 if it was not.
    pub extension_ms: i64,
}

/// A campaign outside a book, in its state after an entry of the log.
#[derive(Debug)]
pub struct CampaignSnapshot {
    state: Box<CampaignState>,
    standing: Option<CampaignCounters>,
    upto: Seq,
}

impl CampaignSnapshot {
    /// A campaign without an entry in the log up to `upto`: it has not opened.
    pub fn unopened(setup: Setup, upto: Seq) -> Self {
        Self {
            state: Box::new(CampaignState::new(&setup)),
            standing: None,
            upto,
        }
    }

    /// An opened campaign in its state after the entry `upto`, still without its grants.
    pub fn opened(setup: Setup, standing: CampaignCounters, upto: Seq) -> Self {
        let mut state = Box::new(CampaignState::new(&setup));
        state.touched = upto;
        Self {
            state,
            standing: Some(standing),
            upto,
        }
    }

    /// A campaign that lacks some grants. It must not stay in a book.
    pub(super) fn part_of(state: CampaignState) -> Self {
        Self {
            state: Box::new(state),
            standing: None,
            upto: 0,
        }
    }

    pub(super) fn ack(&self) -> AckLevel {
        self.state.ack
    }

    pub(super) fn state_mut(&mut self) -> &mut CampaignState {
        &mut self.state
    }

    pub(super) fn into_state(self) -> Box<CampaignState> {
        self.state
    }

    /// Makes the campaign, which has no grants yet, skip these numbers: first and last number of each run, ascending. A
    /// red packet skips none, because a share's number decides its amount.
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
    /// If it is not the next one, or does not fit the campaign.
    pub fn add(&mut self, grant: &FormerGrant<'_>) -> Result<(), InvalidRows> {
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
            _ => return Err(self.bad(&format!("order {number}: returned units contradict state"))),
        };
        state.grants.return_units(number, returned);
        state.payments.note_cancelled(number, grant.cancelled);
        if grant.extension_ms > 0 {
            state.extend_hold(number, grant.extension_ms);
        }
        if state.offer.kind() == CampaignKind::RedPacket {
            state.claimed_minor = state.claimed_minor.saturating_add(grant.amount_minor);
        }
        if state.keeps_units(state.grants.row(number)) {
            state.granted += u64::from(grant.quantity - returned);
        }
        Ok(())
    }

    /// Adds a payment that was received for one of the grants.
    ///
    /// # Errors
    /// If there is no such order.
    pub fn add_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) -> Result<(), InvalidRows> {
        if self.state.order(number).is_none() {
            return Err(self.bad(&format!("payment {payment} is for no order")));
        }
        self.state.note_payment(number, payment, outcome);
        Ok(())
    }

    /// Adds a part of a grant that was restocked. The grant's returned units include those of returns. Its
    /// cancelled units include those of cancellations.
    ///
    /// # Errors
    /// If there is no such order.
    pub fn add_part(
        &mut self,
        number: u32,
        kind: PartKind,
        part: &ReturnPart,
    ) -> Result<(), InvalidRows> {
        if self.state.order(number).is_none() {
            return Err(self.bad(&format!("part of order {number}, which does not exist")));
        }
        self.state.payments.note_part(number, kind, part);
        Ok(())
    }

    /// Completes the campaign, which has all its grants now.
    ///
    /// # Errors
    /// If the grants contradict the campaign's counters.
    pub fn finish(mut self) -> Result<Self, InvalidRows> {
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

    /// Sets phase and counters. The granted units and claimed money must be set before.
    pub(super) fn take_standing(&mut self, standing: CampaignCounters) -> Result<(), InvalidRows> {
        let supply = self.state.offer.supply();
        let gone = standing.granted.checked_add(standing.returned);
        let Some(left) = gone.and_then(|gone| supply.checked_sub(gone)) else {
            return Err(self.bad("users and owner have more units than its supply"));
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
            return Err(self.bad("its counters contradict each other"));
        }
        Ok(())
    }

    /// Declares that the campaign contains all its entries up to `upto`.
    #[must_use]
    pub fn known_upto(mut self, upto: Seq) -> Self {
        self.upto = self.upto.max(upto);
        self
    }

    /// Last entry of the log that it may contain.
    pub fn upto(&self) -> Seq {
        self.upto
    }

    /// Number of its grants.
    pub fn len(&self) -> u32 {
        self.state.grants.len()
    }

    /// Whether it has no grants.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters of the campaign.
    pub fn tally(&self, now: Timestamp) -> Tally {
        self.state.tally_at(now)
    }

    /// An order and its owner.
    pub fn order(&self, number: u32) -> Option<OrderView> {
        self.state.order(number)
    }

    /// As [`Book::peek`].
    pub fn try_gate_outcome(&self, now: Timestamp, claim: &Claim) -> Option<Outcome> {
        self.state.answer(claim, now).ok()?.1
    }

    fn bad(&self, what: &str) -> InvalidRows {
        InvalidRows::new(format!("campaign {}: {what}", self.state.id))
    }
}

impl Book {
    /// Whether a campaign is in the book.
    pub fn has(&self, campaign: CampaignId) -> bool {
        self.campaigns.contains_key(&campaign)
    }

    /// Number of campaigns in the book.
    pub fn len(&self) -> usize {
        self.campaigns.len()
    }

    /// Whether no campaign is in the book.
    pub fn is_empty(&self) -> bool {
        self.campaigns.is_empty()
    }

    /// Starts after an entry of the log, without any of the campaigns up to it.
    pub fn begin_at(&mut self, seq: Seq) {
        self.head = seq;
        self.absent_upto = seq;
    }

    /// Removes a campaign, unless an entry after `settled` concerns it. The agenda keeps the time of its next tick.
    pub fn retire(&mut self, campaign: CampaignId, settled: Seq) -> Option<CampaignSnapshot> {
        let touched = self.campaigns.get(&campaign)?.touched;
        // A campaign that was never opened exists nowhere else.
        if touched == 0 || touched > settled {
            return None;
        }
        let mut state = self.campaigns.remove(&campaign)?;
        state.due = Due::NEVER;
        self.absent_upto = self.absent_upto.max(touched);
        Some(CampaignSnapshot {
            upto: touched,
            state,
            standing: None,
        })
    }

    /// Adds an evicted campaign. Returns false if an entry that it does not contain may concern it: then the caller
    /// must read it again. A campaign that is already in the book does not change.
    pub fn recall(&mut self, now: Timestamp, restored: CampaignSnapshot) -> bool {
        let id = restored.state.id;
        if self.has(id) {
            return true;
        }
        let last = self.absent_last.get(&id).copied().unwrap_or(0);
        if restored.upto < self.absent_upto.max(last) {
            return false;
        }
        self.absent_last.remove(&id);
        self.absent_due.remove(&id);
        let mut state = restored.state;
        state.used.mark(now);
        self.agenda.reschedule(&mut state);
        self.campaigns.insert(id, state);
        true
    }

    /// Notes the time at which a campaign that is not in the book needs a tick.
    pub fn expect(&mut self, due: Timestamp, campaign: CampaignId) {
        self.agenda.due.insert((due, campaign));
    }

    /// Up to `limit` due campaigns that are not in the book, each once. A tick cannot process them.
    pub fn due_and_absent(&self, now: Timestamp, limit: usize) -> Vec<CampaignId> {
        let due = self.agenda.due.iter().take_while(|(due, _)| *due <= now);
        let mut found = HashSet::new();
        due.map(|(_, id)| *id)
            .filter(|id| !self.has(*id) && found.insert(*id))
            .take(limit)
            .collect()
    }

    /// Removes the due times of a campaign that is not in the book and cannot be reloaded.
    pub fn dismiss(&mut self, now: Timestamp, campaign: CampaignId) {
        let due = self.agenda.due.iter().take_while(|(due, _)| *due <= now);
        let of_it: Vec<_> = due.filter(|(_, id)| *id == campaign).copied().collect();
        for key in of_it {
            self.agenda.due.remove(&key);
        }
    }

    /// Time of the last request for a campaign, to the minute.
    pub fn idle_since(&self, campaign: CampaignId) -> Option<Timestamp> {
        Some(self.campaigns.get(&campaign)?.used.at())
    }

    /// Time at which a campaign in the book next needs a tick.
    pub fn due_of(&self, campaign: CampaignId) -> Option<Timestamp> {
        self.campaigns.get(&campaign)?.due.get()
    }
}
