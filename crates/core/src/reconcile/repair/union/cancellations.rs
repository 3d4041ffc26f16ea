//! Partial cancellations of orders in the union. Each counts once, as long as its order is held and keeps a unit.

use super::*;

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
        if !row.cancel_units(part.quantity) {
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
    pub(super) fn cancel_kept_parts(&self, answered: &mut PartRows) {
        for (number, parts) in &self.kept_cancellations {
            for part in parts {
                let (number, part) = (*number, (*part).clone());
                answered.apply(self.survey.now, &Event::PartCancelled { number, part });
            }
        }
    }

    /// Cancels the kept parts of an order before a kept payment pays it. If the payment is of the price of all units,
    /// and some are cancelled, it pays nothing: returns the payment with its due refund.
    pub(super) fn payment_of_more_units<'e>(
        &mut self,
        number: u32,
        event: &'e Event,
    ) -> Option<(&'e PaymentRef, PaymentState)> {
        let (payment, state) = event.payment()?;
        for part in self
            .kept_cancellations
            .get(&number)
            .cloned()
            .into_iter()
            .flatten()
        {
            self.cancel_part(number, part);
        }
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
