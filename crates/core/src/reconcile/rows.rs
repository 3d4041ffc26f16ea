//! Rows of one part of a campaign, in an engine or in a ledger.

use std::collections::BTreeMap;

use crate::{
    book::PaymentOutcome,
    campaign::Phase,
    event::Event,
    id::{IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, ReturnPart, price_of_units},
    payment::PaymentState,
    time::Timestamp,
};

/// A grant on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRow {
    /// User of the grant.
    pub user: UserId,
    /// Units; 1 for a share.
    pub quantity: u32,
    /// Minor units: amount of the share, or price of the order.
    pub amount_minor: i64,
    /// Time of the grant.
    pub granted_at: Timestamp,
    /// Idempotency key of the claim, if it had one. A ledger has keys of orders only.
    pub key: Option<IdempotencyKey>,
    /// State of the order; always [`OrderState::Held`] for a share.
    pub state: OrderState,
    /// Units that were returned after the payment; all units for a returned order.
    pub returned: u32,
    /// Units that were cancelled while the order was held. Units and price are without them.
    pub cancelled: u32,
    /// Milliseconds by which the hold of an order was extended; 0 if it was not.
    pub extension_ms: i64,
}

impl GrantRow {
    /// Units that the user has by this grant.
    #[must_use]
    pub fn units(&self) -> u32 {
        match self.state.keeps_units() {
            true => self.quantity.saturating_sub(self.returned),
            false => 0,
        }
    }

    /// Changes the state of an order. A returned order has returned all its units.
    pub(super) fn step(&mut self, state: OrderState) {
        self.state = state;
        if state == OrderState::Returned {
            self.returned = self.quantity;
        }
    }

    /// Units of the claim: with units that were cancelled since.
    #[must_use]
    pub fn claimed(&self) -> u32 {
        self.quantity.saturating_add(self.cancelled)
    }

    /// Minor units of the claim: price of all its units.
    #[must_use]
    pub fn claimed_minor(&self) -> i64 {
        match self.cancelled {
            0 => self.amount_minor,
            _ => price_of_units(self.amount_minor, self.claimed(), self.quantity),
        }
    }

    /// Cancels units of an order that keeps at least one. Returns false, and changes nothing, if it keeps none.
    pub(super) fn cancel_units(&mut self, units: u32) -> bool {
        let Some(left) = self.quantity.checked_sub(units).filter(|left| *left > 0) else {
            return false;
        };
        self.amount_minor = price_of_units(self.amount_minor, left, self.quantity);
        self.quantity = left;
        self.cancelled = self.cancelled.saturating_add(units);
        true
    }

    /// Returns units. An order without remaining units becomes returned.
    pub(super) fn return_units(&mut self, units: u32) {
        self.returned = self.returned.saturating_add(units).min(self.quantity);
        if self.returned == self.quantity {
            self.state = OrderState::Returned;
        }
    }
}

/// Rows of one part of a campaign on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRows {
    /// Grants by number.
    pub grants: BTreeMap<u32, GrantRow>,
    /// States of payments, by order and reference.
    pub payments: BTreeMap<(u32, PaymentRef), PaymentState>,
    /// Units of partial returns, by order and key.
    pub returns: BTreeMap<(u32, IdempotencyKey), u32>,
    /// Units of partial cancellations, by order and key.
    pub cancellations: BTreeMap<(u32, IdempotencyKey), u32>,
    /// Recorded phase of the part. It is never [`Phase::Live`], which follows from the clock.
    pub phase: Phase,
}

/// Remainder that goes to the owner at the close of a campaign, and later from orders that end without payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerReturn {
    /// Units.
    pub units: u64,
    /// Minor units of a packet; 0 for a sale.
    pub amount_minor: i64,
}

impl PartRows {
    /// Creates the rows of a part without grants.
    #[must_use]
    pub fn new(phase: Phase) -> Self {
        Self {
            grants: BTreeMap::new(),
            payments: BTreeMap::new(),
            returns: BTreeMap::new(),
            cancellations: BTreeMap::new(),
            phase,
        }
    }

    /// Applies an event of this part. Steps of missing orders change nothing.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                key,
            } => {
                let row = GrantRow {
                    user: user.clone(),
                    quantity: *quantity,
                    amount_minor: *amount_minor,
                    granted_at: at,
                    key: key.clone(),
                    state: OrderState::Held,
                    returned: 0,
                    cancelled: 0,
                    extension_ms: 0,
                };
                self.grants.insert(*number, row);
            }
            Event::Paid { number, .. } | Event::Reinstated { number, .. } => {
                self.step(*number, OrderState::Paid);
                self.note_payment_of(*number, event);
            }
            Event::RefundDue { number, .. } => self.note_payment_of(*number, event),
            Event::Cancelled { number } => self.step(*number, OrderState::Cancelled),
            Event::PartCancelled { number, part } => self.cancel_part(*number, part),
            Event::Expired { number } => self.step(*number, OrderState::Expired),
            Event::HoldExtended {
                number,
                extension_ms,
            } => self.extend_hold(*number, *extension_ms),
            Event::Returned { number, part: None } => self.step(*number, OrderState::Returned),
            Event::Returned {
                number,
                part: Some(part),
            } => self.return_part(*number, part),
            Event::Opened { .. } | Event::Resumed => self.phase = Phase::Scheduled,
            Event::Paused => self.phase = Phase::Paused,
            Event::Ended => self.phase = Phase::Ended,
            Event::Closed { .. } => self.phase = Phase::Closed,
            // These events move only units that no user has.
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. }
            | Event::StockChanged { .. }
            | Event::TermsChanged { .. }
            | Event::ChangeMade { .. } => {}
        }
    }

    /// Units that users have.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.grants.values().map(|row| u64::from(row.units())).sum()
    }

    /// Minor units of all grants.
    #[must_use]
    pub fn amount_minor(&self) -> i64 {
        self.grants.values().map(|row| row.amount_minor).sum()
    }

    /// The payment that paid an order, with its outcome and money.
    pub(super) fn paid_by(&self, number: u32) -> Option<(&PaymentRef, PaymentState)> {
        let mut payments = self.payments_of(number);
        payments.find(|(_, state)| state.outcome != PaymentOutcome::RefundDue)
    }

    /// Payments of an order.
    pub fn payments_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (&PaymentRef, PaymentState)> + use<'_> {
        // References have at least one character, and '!' is the first that they may have.
        let first = PaymentRef::new("!").ok().map(|first| (number, first));
        let from = first.map(|first| self.payments.range(first..));
        let all = from.into_iter().flatten();
        all.take_while(move |((of, _), _)| *of == number)
            .map(|((_, payment), state)| (payment, *state))
    }

    /// Partial returns of an order: keys and units.
    pub fn returns_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (&IdempotencyKey, u32)> + use<'_> {
        parts_of(&self.returns, number)
    }

    /// Partial cancellations of an order: keys and units.
    pub fn cancellations_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (&IdempotencyKey, u32)> + use<'_> {
        parts_of(&self.cancellations, number)
    }

    /// Raises the returned units of each paid order to the sum of its partial returns, and the cancelled units of each
    /// order to the sum of its partial cancellations. A part that was settled after the order was read is among the
    /// parts alone. A part whose row was deleted is in the order's units alone.
    pub fn count_parts(&mut self) {
        let (returned, cancelled) = (sums(&self.returns), sums(&self.cancellations));
        for (number, row) in &mut self.grants {
            let in_parts = cancelled.get(number).copied().unwrap_or(0);
            row.cancel_units(in_parts.saturating_sub(row.cancelled));
            if row.state == OrderState::Paid {
                let in_parts = returned.get(number).copied().unwrap_or(0);
                row.returned = row.returned.max(in_parts);
            }
        }
    }

    /// Units of an order that partial returns have returned.
    #[must_use]
    pub fn returned_in_parts(&self, number: u32) -> u32 {
        let units = self.returns_of(number).map(|(_, units)| units);
        units.fold(0, u32::saturating_add)
    }

    /// Returned units of a paid order whose returns are not there: their rows were deleted.
    #[must_use]
    pub fn unnamed_returns(&self, number: u32) -> u32 {
        let row = self.grants.get(&number);
        let row = row.filter(|row| row.state == OrderState::Paid);
        row.map_or(0, |row| {
            row.returned.saturating_sub(self.returned_in_parts(number))
        })
    }

    fn step(&mut self, number: u32, state: OrderState) {
        if let Some(row) = self.grants.get_mut(&number) {
            row.step(state);
        }
    }

    /// Extends the hold of an order, which may have left its hold since.
    fn extend_hold(&mut self, number: u32, extension_ms: i64) {
        let row = self.grants.get_mut(&number);
        if let Some(row) = row.filter(|row| row.extension_ms == 0) {
            row.extension_ms = extension_ms;
        }
    }

    fn cancel_part(&mut self, number: u32, part: &ReturnPart) {
        let key = (number, part.key.clone());
        let is_known = self.cancellations.contains_key(&key);
        let row = self.grants.get_mut(&number);
        if let Some(row) = row.filter(|row| !is_known && row.state == OrderState::Held)
            && part.quantity > 0
            && row.cancel_units(part.quantity)
        {
            self.cancellations.insert(key, part.quantity);
        }
    }

    fn return_part(&mut self, number: u32, part: &ReturnPart) {
        let key = (number, part.key.clone());
        if self.returns.insert(key, part.quantity).is_none()
            && let Some(row) = self.grants.get_mut(&number)
        {
            row.return_units(part.quantity);
        }
    }

    fn note_payment_of(&mut self, number: u32, event: &Event) {
        if let Some((payment, state)) = event.payment() {
            let key = (number, payment.clone());
            self.payments.entry(key).or_insert(state);
        }
    }
}

fn parts_of(
    parts: &BTreeMap<(u32, IdempotencyKey), u32>,
    number: u32,
) -> impl Iterator<Item = (&IdempotencyKey, u32)> + use<'_> {
    // Keys have at least one character, and '!' is the first that they may have.
    let first = IdempotencyKey::new("!").ok().map(|first| (number, first));
    let from = first.map(|first| parts.range(first..));
    let all = from.into_iter().flatten();
    all.take_while(move |((of, _), _)| *of == number)
        .map(|((_, key), units)| (key, *units))
}

/// Units of all parts of each order.
fn sums(parts: &BTreeMap<(u32, IdempotencyKey), u32>) -> BTreeMap<u32, u32> {
    let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
    for ((number, _), units) in parts {
        let sum = sums.entry(*number).or_default();
        *sum = sum.saturating_add(*units);
    }
    sums
}
