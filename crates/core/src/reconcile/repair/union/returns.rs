//! Partial returns of orders in the union. Each counts once, and their sum is at most the order's units.

use super::*;

impl Union<'_> {
    /// Applies the engine's state and returns of an order, if its state is later.
    pub(super) fn follow(&mut self, number: u32, row: &GrantRow) {
        if !self.advance(number, row.state) {
            return;
        }
        let engine = &self.survey.engine.rows;
        for (key, quantity) in engine.returns_of(number) {
            let key = key.clone();
            self.return_part(number, &ReturnPart { quantity, key });
        }
    }

    /// Records a partial return of a paid order, once per key, if the order has enough units. If the whole order was
    /// returned since, the units are part of that return, which the ledger must not have settled yet.
    pub(super) fn return_part(&mut self, number: u32, part: &ReturnPart) {
        let key = (number, part.key.clone());
        let before = self.rows.returned_in_parts(number);
        let settled = self.settled.grants.get(&number);
        let is_settled = settled.is_some_and(|row| row.state == OrderState::Returned);
        let Some(row) = self.rows.grants.get_mut(&number) else {
            return;
        };
        let fits = before.checked_add(part.quantity);
        let fits = fits.is_some_and(|units| units <= row.quantity);
        if is_settled || !fits || self.rows.returns.contains_key(&key) {
            return;
        }
        match row.state {
            OrderState::Paid => {
                row.return_units(part.quantity);
                let units = u64::from(part.quantity);
                let own = self.held.entry(row.user.clone()).or_default();
                *own = own.saturating_sub(units);
                self.granted -= units;
            }
            OrderState::Returned => {}
            OrderState::Held | OrderState::Cancelled | OrderState::Expired => return,
        }
        self.rows.returns.insert(key, part.quantity);
    }

    /// Returns of the engine that the union lacks.
    pub(super) fn refused_returns(&self) -> Vec<(u32, IdempotencyKey)> {
        let returns = self.survey.engine.rows.returns.keys();
        let refused = returns.filter(|key| !self.rows.returns.contains_key(*key));
        refused.cloned().collect()
    }

    /// New returns of an order that is paid in the settled state: partial ones, then one of the rest if the order is
    /// returned.
    pub(super) fn returns(&self, number: u32, row: &GrantRow, settled: &PartRows) -> Vec<Event> {
        let is_new = |key: &IdempotencyKey| !settled.returns.contains_key(&(number, key.clone()));
        let parts = self.rows.returns_of(number).filter(|(key, _)| is_new(key));
        let mut events: Vec<_> = parts
            .map(|(key, quantity)| {
                let key = key.clone();
                let part = Some(ReturnPart { quantity, key });
                Event::Returned { number, part }
            })
            .collect();
        let is_left = self.rows.returned_in_parts(number) < row.quantity;
        if row.state == OrderState::Returned && is_left {
            events.push(Event::Returned { number, part: None });
        }
        events
    }
}
