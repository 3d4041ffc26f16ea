//! How events change a campaign.

use super::State;
use crate::{
    book::{
        PaymentOutcome,
        grants::{NewGrant, Row},
    },
    campaign::{Phase, Terms},
    event::Event,
    id::PaymentRef,
    order::{OrderState, OrderStep, ReturnPart},
    time::Timestamp,
};

impl State {
    /// Applies an event. Deciding and replaying both end here, so that a rebuilt book equals the one that was lost.
    pub(in crate::book) fn evolve(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Opened { .. } => {}
            Event::Granted {
                user,
                quantity,
                amount_minor,
                key,
                ..
            } => {
                let grant = NewGrant {
                    user,
                    quantity: *quantity,
                    amount_minor: *amount_minor,
                    key: key.as_ref(),
                    granted_at: at,
                };
                self.record_grant(self.grants.find(user), &grant);
            }
            Event::Paid {
                number, payment, ..
            } => {
                self.step(*number, OrderStep::Pay);
                self.note_payment(*number, payment, PaymentOutcome::Paid);
            }
            Event::Cancelled { number } => self.step(*number, OrderStep::Cancel),
            Event::Expired { number } => self.step(*number, OrderStep::Expire),
            Event::Returned { number, part } => self.return_units(*number, part.as_ref()),
            Event::Reinstated {
                number, payment, ..
            } => {
                self.step(*number, OrderStep::Reinstate);
                self.note_payment(*number, payment, PaymentOutcome::Reinstated);
            }
            Event::RefundDue {
                number, payment, ..
            } => self.note_payment(*number, payment, PaymentOutcome::RefundDue),
            // A book has all parts of its campaigns.
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. } => {}
            Event::Paused => self.phase = Phase::Paused,
            Event::Resumed => self.phase = Phase::Scheduled, // live again as soon as the window says so: now
            Event::Ended => self.phase = Phase::Ended,
            Event::Closed {
                returned,
                refunded_minor,
            } => {
                self.phase = Phase::Closed;
                self.remaining -= returned;
                self.returned += returned;
                self.refunded_minor += refunded_minor;
            }
            Event::StockChanged { units } => self.change_stock(*units),
            Event::TermsChanged { terms, .. } => self.set_terms(*terms),
        }
    }

    /// Adds units to the stock, or takes them out of it. That both are possible was checked when it was decided.
    fn change_stock(&mut self, units: i64) {
        let changed = |count: u64| count.saturating_add_signed(units);
        if let Some(sale) = self.offer.sale_mut()
            && let Ok(after) = sale.with_stock(changed(sale.stock()))
        {
            *sale = after;
            self.remaining = changed(self.remaining);
        }
    }

    /// Puts terms in the place of the present ones. That they are possible was checked when they were decided.
    fn set_terms(&mut self, terms: Terms) {
        if let Some(sale) = self.offer.sale_mut()
            && let Ok(after) = terms.rules(sale)
        {
            (*sale, self.window) = (after, terms.window);
        }
    }

    /// Moves an order, and its units with it. The step was checked when it was decided.
    fn step(&mut self, number: u32, step: OrderStep) {
        let closed = self.phase == Phase::Closed;
        let row = self.grants.row(number);
        let quantity = u64::from(row.quantity);
        let Ok(after) = row.state.after(step) else {
            return;
        };
        let before = self.grants.set_state(number, after);
        match (before.keeps_units(), after.keeps_units()) {
            (true, false) if closed => {
                self.granted -= quantity;
                self.returned += quantity;
            }
            (true, false) => {
                self.granted -= quantity;
                self.remaining += quantity;
            }
            (false, true) => {
                self.remaining -= quantity;
                self.granted += quantity;
            }
            _ => {}
        }
        self.skip_from(number);
    }

    /// Returns some units of a paid order, or all that are left. The step was checked when it was decided.
    fn return_units(&mut self, number: u32, part: Option<&ReturnPart>) {
        let row = self.grants.row(number);
        if row.state != OrderState::Paid {
            return;
        }
        let left = row.quantity - row.returned;
        let units = part.map_or(left, |part| part.quantity.min(left));
        if let Some(part) = part {
            self.payments.note_return(number, &part.key, part.quantity);
        }
        self.grants.return_units(number, units);
        self.granted -= u64::from(units);
        match self.phase {
            Phase::Closed => self.returned += u64::from(units),
            _ => self.remaining += u64::from(units),
        }
    }

    /// Keeps `first_held` at the oldest order that is held, after order `number` has left that state. Each order is
    /// stepped past once.
    fn skip_from(&mut self, number: u32) {
        if self.grants.place_of(number) == self.first_held {
            self.skip_to_held();
        }
    }

    /// Moves `first_held` on to the next order that is held, or stays.
    pub(in crate::book) fn skip_to_held(&mut self) {
        let left = |row: &Row| row.state != OrderState::Held;
        while self.grants.at(self.first_held).is_some_and(left) {
            self.first_held += 1;
        }
    }

    pub(in crate::book) fn note_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) {
        // The order itself says that it is paid, and every further payment of nothing is answered so.
        if outcome != PaymentOutcome::Paid || self.grants.row(number).amount_minor != 0 {
            self.payments.note(number, payment, outcome);
        }
    }
}
