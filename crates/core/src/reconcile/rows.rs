//! The rows of one part of a campaign, as an engine or a ledger has them.

use std::collections::BTreeMap;

use crate::{
    book::PaymentOutcome,
    campaign::Phase,
    event::Event,
    id::{IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, ReturnPart},
    payment::PaymentState,
    time::Timestamp,
};

/// A grant as one side has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRow {
    /// Who has it.
    pub user: UserId,
    /// Units; 1 for a share.
    pub quantity: u32,
    /// Minor units: the share's money, or the price of the order.
    pub amount_minor: i64,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The key of the claim, if it had one. A ledger has those of orders.
    pub key: Option<IdempotencyKey>,
    /// Where the order stands; [`OrderState::Held`] for a share, always.
    pub state: OrderState,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned: u32,
}

impl GrantRow {
    /// Units that the user has by it.
    #[must_use]
    pub fn units(&self) -> u32 {
        match self.state.keeps_units() {
            true => self.quantity.saturating_sub(self.returned),
            false => 0,
        }
    }

    /// Moves an order to a state. One that is returned has returned all its units.
    pub(super) fn step(&mut self, state: OrderState) {
        self.state = state;
        if state == OrderState::Returned {
            self.returned = self.quantity;
        }
    }

    /// Returns units. An order without any left is returned.
    pub(super) fn return_units(&mut self, units: u32) {
        self.returned = self.returned.saturating_add(units).min(self.quantity);
        if self.returned == self.quantity {
            self.state = OrderState::Returned;
        }
    }
}

/// One part of a campaign as one side has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRows {
    /// Grants by number.
    pub grants: BTreeMap<u32, GrantRow>,
    /// What became of payments, by order and reference.
    pub payments: BTreeMap<(u32, PaymentRef), PaymentState>,
    /// Units of returns of parts of orders, by order and key.
    pub returns: BTreeMap<(u32, IdempotencyKey), u32>,
    /// Where the part stands. It is never [`Phase::Live`]: that follows from the clock.
    pub phase: Phase,
}

/// What goes back to the owner of a campaign when it closes, and later by orders that end without payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoneBack {
    /// Units.
    pub units: u64,
    /// Minor units of a packet; 0 for a sale.
    pub amount_minor: i64,
}

impl PartRows {
    /// A part of which nothing is granted.
    #[must_use]
    pub fn new(phase: Phase) -> Self {
        Self {
            grants: BTreeMap::new(),
            payments: BTreeMap::new(),
            returns: BTreeMap::new(),
            phase,
        }
    }

    /// Follows an event of this part. Steps of orders that are not there change nothing.
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
                };
                self.grants.insert(*number, row);
            }
            Event::Paid { number, .. } | Event::Reinstated { number, .. } => {
                self.step(*number, OrderState::Paid);
                self.note_payment_of(*number, event);
            }
            Event::RefundDue { number, .. } => self.note_payment_of(*number, event),
            Event::Cancelled { number } => self.step(*number, OrderState::Cancelled),
            Event::Expired { number } => self.step(*number, OrderState::Expired),
            Event::Returned { number, part: None } => self.step(*number, OrderState::Returned),
            Event::Returned {
                number,
                part: Some(part),
            } => self.return_part(*number, part),
            Event::Opened { .. } | Event::Resumed => self.phase = Phase::Scheduled,
            Event::Paused => self.phase = Phase::Paused,
            Event::Ended => self.phase = Phase::Ended,
            Event::Closed { .. } => self.phase = Phase::Closed,
            // They move what nobody has yet.
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. }
            | Event::StockChanged { .. }
            | Event::TermsChanged { .. } => {}
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

    /// An order's payments.
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

    /// Returns of parts of an order: keys and units.
    pub fn returns_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (&IdempotencyKey, u32)> + use<'_> {
        // Keys have at least one character, and '!' is the first that they may have.
        let first = IdempotencyKey::new("!").ok().map(|first| (number, first));
        let from = first.map(|first| self.returns.range(first..));
        let all = from.into_iter().flatten();
        all.take_while(move |((of, _), _)| *of == number)
            .map(|((_, key), units)| (key, *units))
    }

    /// Sets the returned units of each paid order to the sum of its partial returns.
    pub fn count_returns(&mut self) {
        let mut returned: BTreeMap<u32, u32> = BTreeMap::new();
        for ((number, _), units) in &self.returns {
            *returned.entry(*number).or_default() += units;
        }
        for (number, row) in &mut self.grants {
            if row.state == OrderState::Paid {
                row.returned = returned.get(number).copied().unwrap_or(0);
            }
        }
    }

    /// Units of an order that returns of parts have returned.
    #[must_use]
    pub fn returned_in_parts(&self, number: u32) -> u32 {
        self.returns_of(number).map(|(_, units)| units).sum()
    }

    fn step(&mut self, number: u32, state: OrderState) {
        if let Some(row) = self.grants.get_mut(&number) {
            row.step(state);
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
