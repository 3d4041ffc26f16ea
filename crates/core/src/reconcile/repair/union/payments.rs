//! Payments in the union: each either pays its order or is due for a refund, never both.

use super::*;

impl Union<'_> {
    /// Adds a payment of the engine. If the order is not paid, its refund is due.
    pub(super) fn add_payment(&mut self, number: u32, payment: &PaymentRef, state: PaymentState) {
        if !self.may_pay(number, payment) {
            return;
        }
        let row = self.rows.grants.get(&number);
        let is_paid = row
            .is_none_or(|row| matches!(row.state, OrderState::Paid | OrderState::Returned))
            && !self.is_paid_by_other(number, payment);
        let outcome = match is_paid {
            true => state.outcome,
            false => PaymentOutcome::RefundDue,
        };
        let key = (number, payment.clone());
        let named = self.with_money(number, state);
        let state = PaymentState::new(outcome, named.received);
        self.rows.payments.entry(key).or_insert(state);
    }

    /// Whether another payment pays the order. Then a refund of this one is due.
    fn is_paid_by_other(&self, number: u32, payment: &PaymentRef) -> bool {
        let paid_by = self.rows.paid_by(number);
        paid_by.is_some_and(|(by, _)| by != payment)
    }

    /// Whether a payment may pay an order. The zero payment of a free order cannot pay an order with a price, even if
    /// that reuses the number of a lost free order. Nor can it pay an order that another payment has paid.
    pub(super) fn may_pay(&self, number: u32, payment: &PaymentRef) -> bool {
        let campaign = self.facts().campaign;
        if *payment != PaymentRef::for_free_order(OrderId { campaign, number }) {
            return true;
        }
        let row = self.rows.grants.get(&number);
        let is_other = |(by, _): (&PaymentRef, PaymentState)| by != payment;
        row.is_none_or(|row| row.amount_minor == 0)
            && !self.rows.paid_by(number).is_some_and(is_other)
    }

    /// Makes the refund of a payment due if its order has released its units and cannot take them again.
    pub(super) fn add_late_payment(
        &mut self,
        number: u32,
        (payment, state): (&PaymentRef, PaymentState),
    ) {
        let row = self.rows.grants.get(&number);
        if row.is_some_and(|row| matches!(row.state, OrderState::Expired | OrderState::Cancelled)) {
            let state = PaymentState::new(PaymentOutcome::RefundDue, state.received);
            self.add_payment(number, payment, state);
        }
    }

    /// Whether the ledger has, or will have, a due refund of this payment. Such a payment pays no order.
    pub(super) fn is_settled_as_owed(&self, number: u32, payment: &PaymentRef) -> bool {
        let known = self.settled.payments.get(&(number, payment.clone()));
        known.is_some_and(|state| state.outcome == PaymentOutcome::RefundDue)
    }

    /// Whether an order may follow the engine to a state. A payment whose refund is due in the ledger pays no order.
    pub(super) fn may_follow(&self, number: u32, state: OrderState) -> bool {
        let is_paid = matches!(state, OrderState::Paid | OrderState::Returned);
        if is_paid && !self.has_same_units(number) {
            return false;
        }
        let by = is_paid.then(|| self.survey.engine.rows.paid_by(number));
        let by = by.flatten().map(|(payment, _)| payment);
        !by.is_some_and(|payment| self.is_settled_as_owed(number, payment))
    }

    /// Records the payment of a step that a node has answered. If the step pays the order, it replaces a due refund of
    /// the same payment that has no position in the log.
    pub(super) fn note_payment(&mut self, number: u32, payment: &PaymentRef, state: PaymentState) {
        let mut state = state;
        if self.is_paid_by_other(number, payment) {
            state.outcome = PaymentOutcome::RefundDue;
        }
        let pays = state.outcome != PaymentOutcome::RefundDue;
        let replaces = pays && self.rows.paid_by(number).is_none();
        let key = (number, payment.clone());
        let is_new = !self.rows.payments.contains_key(&key);
        if is_new || replaces {
            self.rows.payments.insert(key, state);
            self.steps_made += 1;
        }
    }
}
