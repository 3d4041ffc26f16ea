//! The rows of one part of a campaign, as an engine or a ledger has them.

use std::collections::BTreeMap;

use crate::{
    book::PaymentOutcome,
    campaign::Phase,
    event::Event,
    id::{IdempotencyKey, PaymentRef, UserId},
    order::OrderState,
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
}

/// One part of a campaign as one side has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRows {
    /// Grants by number.
    pub grants: BTreeMap<u32, GrantRow>,
    /// What became of payments, by order and reference.
    pub payments: BTreeMap<(u32, PaymentRef), PaymentState>,
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
            Event::Returned { number } => self.step(*number, OrderState::Returned),
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
        let keeping = self.grants.values().filter(|row| row.state.keeps_units());
        keeping.map(|row| u64::from(row.quantity)).sum()
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

    fn step(&mut self, number: u32, state: OrderState) {
        if let Some(row) = self.grants.get_mut(&number) {
            row.state = state;
        }
    }

    fn note_payment_of(&mut self, number: u32, event: &Event) {
        if let Some((payment, state)) = event.payment() {
            let key = (number, payment.clone());
            self.payments.entry(key).or_insert(state);
        }
    }
}
