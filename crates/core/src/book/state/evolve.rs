//! Changes of a campaign by events.

use super::CampaignState;
use crate::{
    book::{
        PaymentOutcome,
        grants::{NewGrant, Row},
    },
    campaign::{Phase, SaleSettings},
    event::Event,
    id::PaymentRef,
    order::{OrderState, OrderStep, PartKind, ReturnPart},
    time::Timestamp,
};

impl CampaignState {
    /// Applies an event. Decisions and replays both use it, so that a rebuilt book equals the lost one.
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
            Event::PartCancelled { number, part } => self.cancel_units(*number, part),
            Event::Expired { number } => self.step(*number, OrderStep::Expire),
            Event::HoldExtended {
                number,
                extension_ms,
            } => self.extend_hold(*number, *extension_ms),
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
            // A book has whole campaigns, without shards.
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. } => {}
            // Only the ledger remembers keys.
            Event::ChangeMade { .. } => {}
            Event::Paused => self.phase = Phase::Paused,
            Event::Resumed => self.phase = Phase::Scheduled, // `phase_at` makes it live, because its window has started
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

    /// Adds units to the stock, or removes them. The decision has checked both.
    fn change_stock(&mut self, units: i64) {
        let changed = |count: u64| count.saturating_add_signed(units);
        if let Some(sale) = self.offer.sale_mut()
            && let Ok(after) = sale.with_stock(changed(sale.stock()))
        {
            *sale = after;
            self.remaining = changed(self.remaining);
        }
    }

    /// Replaces the terms. The decision has checked them.
    fn set_terms(&mut self, terms: SaleSettings) {
        if let Some(sale) = self.offer.sale_mut()
            && let Ok(after) = terms.rules(sale)
        {
            (*sale, self.window) = (after, terms.window);
        }
    }

    /// Changes an order's state, and moves its units. The decision has checked the step.
    fn step(&mut self, number: u32, step: OrderStep) {
        let closed = self.phase == Phase::Closed;
        let row = self.grants.row(number);
        let quantity = u64::from(row.quantity);
        let Ok(after) = row.state.after(step) else {
            return;
        };
        let before = self.grants.set_state(number, after);
        self.payments.end_extension(number);
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

    /// Extends the hold of a held order. The decision has checked the step.
    pub(in crate::book) fn extend_hold(&mut self, number: u32, extension_ms: i64) {
        let row = self.grants.row(number);
        let length_ms = self.hold_ms().saturating_add(extension_ms);
        let until = row.granted_at.plus_millis(length_ms);
        let held = (row.state == OrderState::Held).then_some(until);
        self.payments.note_extension(number, extension_ms, held);
        self.skip_from(number);
    }

    /// Returns some or all remaining units of a paid order. The decision has checked the step.
    fn return_units(&mut self, number: u32, part: Option<&ReturnPart>) {
        let row = self.grants.row(number);
        if row.state != OrderState::Paid {
            return;
        }
        let left = row.quantity - row.returned;
        let units = part.map_or(left, |part| part.quantity.min(left));
        if let Some(part) = part {
            self.payments.note_part(number, PartKind::Return, part);
        }
        self.grants.return_units(number, units);
        self.restock(units);
    }

    /// Cancels some units of a held order, which keeps at least one. The decision has checked the step.
    fn cancel_units(&mut self, number: u32, part: &ReturnPart) {
        let row = self.grants.row(number);
        if row.state != OrderState::Held || part.quantity >= row.quantity {
            return;
        }
        let kind = PartKind::Cancellation;
        self.payments.note_part(number, kind, part);
        self.payments.note_cancelled(number, part.quantity);
        self.grants.cancel_units(number, part.quantity);
        self.restock(part.quantity);
    }

    /// Takes units from users. They go to the stock, or after the close to the owner.
    fn restock(&mut self, units: u32) {
        self.granted -= u64::from(units);
        match self.phase {
            Phase::Closed => self.returned += u64::from(units),
            _ => self.remaining += u64::from(units),
        }
    }

    /// Keeps `first_held` at its order, after order `number` has left that state or its hold was extended. It passes
    /// each order once.
    fn skip_from(&mut self, number: u32) {
        if self.grants.place_of(number) == self.first_held {
            self.skip_to_held();
        }
    }

    /// Advances `first_held` to the next held order whose hold is not extended, or keeps it.
    pub(in crate::book) fn skip_to_held(&mut self) {
        let is_extended = |place| {
            let number = self.grants.number_at(place);
            self.payments.extension_ms(number) > 0
        };
        let mut place = self.first_held;
        let left = |row: &Row, place| row.state != OrderState::Held || is_extended(place);
        while self.grants.at(place).is_some_and(|row| left(row, place)) {
            place += 1;
        }
        self.first_held = place;
    }

    pub(in crate::book) fn note_payment(
        &mut self,
        number: u32,
        payment: &PaymentRef,
        outcome: PaymentOutcome,
    ) {
        // The order's state already records its free payment, and every later payment of nothing gets the same answer.
        if outcome != PaymentOutcome::Paid || self.grants.row(number).amount_minor != 0 {
            self.payments.note(number, payment, outcome);
        }
    }
}
