//! Partial cancellations of orders in the union. Each counts once, as long as its order is held and keeps a unit.

use std::cmp::Reverse;

use super::*;

/// A kept part. From the sum of all parts, units that are cancelled already are subtracted.
fn without_known(part: &ReturnPart, cancelled: u32) -> ReturnPart {
    let mut part = part.clone();
    if part.is_before_payment() {
        part.quantity = part.quantity.saturating_sub(cancelled);
    }
    part
}

impl<'a> Union<'a> {
    /// Cancels units of a held order, once per key, if the order keeps at least one.
    pub(super) fn cancel_part(&mut self, number: u32, part: &ReturnPart) {
        let key = (number, part.key.clone());
        if self.rows.cancellations.contains_key(&key) || self.rows.returns.contains_key(&key) {
            return;
        }
        let row = self.rows.grants.get_mut(&number);
        let Some(row) = row.filter(|row| row.state == OrderState::Held) else {
            return;
        };
        if part.quantity == 0 || !row.cancel_units(part.quantity) {
            return;
        }
        let units = u64::from(part.quantity);
        let own = self.held.entry(row.user.clone()).or_default();
        *own = own.saturating_sub(units);
        self.granted -= units;
        self.rows.cancellations.insert(key, part.quantity);
        self.steps_made += 1;
    }

    /// Applies the engine's partial cancellations of an order. They precede its other steps.
    pub(super) fn follow_cancellations(&mut self, number: u32) {
        let engine = &self.survey.engine.rows;
        for (key, quantity) in engine.cancellations_of(number) {
            let key = key.clone();
            self.cancel_part(number, &ReturnPart { quantity, key });
        }
    }

    /// Cancels parts of a new order that nodes have answered.
    pub(super) fn cancel_kept_parts_of_new(&self, answered: &mut PartRows) {
        let numbers: Vec<u32> = answered.grants.keys().copied().collect();
        for number in numbers {
            for part in self.kept_parts(number) {
                let cancelled = answered.grants.get(&number).map_or(0, |row| row.cancelled);
                let part = without_known(part, cancelled);
                answered.apply(self.survey.now, &Event::PartCancelled { number, part });
            }
        }
    }

    /// Cancels parts of an order that nodes have answered.
    pub(super) fn cancel_kept_parts(&mut self, number: u32) {
        for part in self.kept_parts(number) {
            let row = self.rows.grants.get(&number);
            let cancelled = row.map_or(0, |row| row.cancelled);
            self.cancel_part(number, &without_known(part, cancelled));
        }
    }

    /// Parts of an order that nodes have answered: those with callers' keys before the sums of all.
    fn kept_parts(&self, number: u32) -> Vec<&'a ReturnPart> {
        let kept = self.kept_cancellations.get(&number);
        let mut parts = kept.cloned().unwrap_or_default();
        // The highest of several sums counts.
        parts.sort_by_key(|part| (part.is_before_payment(), Reverse(part.quantity)));
        parts
    }

    /// Cancels the kept parts of an order before a kept payment pays it. If the payment is of the price of all units,
    /// and some are cancelled, it pays nothing: returns the payment with its due refund.
    pub(super) fn payment_of_more_units<'e>(
        &mut self,
        number: u32,
        event: &'e Event,
    ) -> Option<(&'e PaymentRef, PaymentState)> {
        let (payment, state) = event.payment()?;
        self.cancel_kept_parts(number);
        let named = self.with_money(number, state);
        let pays = state.outcome != PaymentOutcome::RefundDue;
        (pays && named != state).then(|| {
            let due = PaymentState::new(PaymentOutcome::RefundDue, named.received);
            (payment, due)
        })
    }

    /// State of a payment that names its money, if it is the price of an order with more units.
    pub(super) fn with_money(&self, number: u32, state: PaymentState) -> PaymentState {
        let row = self.rows.grants.get(&number);
        let row = row.filter(|row| row.cancelled > 0);
        match (row.zip(self.facts().currency), state.received) {
            (Some((row, currency)), ReceivedMoney::Price) => {
                let money = Money::new(row.claimed_minor(), currency);
                PaymentState::new(state.outcome, ReceivedMoney::Other(money))
            }
            _ => state,
        }
    }

    /// Whether an order of the engine has the union's cancelled units. If not, its payment was for other units.
    pub(super) fn has_same_units(&self, number: u32) -> bool {
        let engine = self.survey.engine.rows.grants.get(&number);
        let known = self.rows.grants.get(&number);
        let of = |row: Option<&GrantRow>| row.map(|row| row.cancelled);
        of(engine) == of(known)
    }
}
