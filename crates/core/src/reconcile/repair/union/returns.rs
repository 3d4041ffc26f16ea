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

    /// Notes a return of units of a paid order, once per key, as far as the order has them. If all of the order was
    /// returned since, the units are among those; the ledger must not have that yet. A return that the ledger may have
    /// settled keeps its key and returns nothing: the order's units have it already.
    pub(super) fn return_part(&mut self, number: u32, part: &ReturnPart) {
        let key = (number, part.key.clone());
        let before = self.returned_by_parts(number);
        let settled = self.settled.grants.get(&number);
        let is_settled = settled.is_some_and(|row| row.state == OrderState::Returned);
        let may_be_settled = self.may_be_settled(number, part.quantity);
        let Some(row) = self.rows.grants.get_mut(&number) else {
            return;
        };
        if may_be_settled && !is_settled {
            self.rows.returns.entry(key).or_insert(part.quantity);
            return;
        }
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
        self.steps_made += 1;
    }

    /// Units of an order's returns that nodes have answered, each key once.
    pub(super) fn units_of_kept_returns(&self, number: u32) -> u32 {
        let kept = self.kept_returns.get(&number).into_iter().flatten();
        let kept: BTreeMap<_, _> = kept.map(|part| (&part.key, part.quantity)).collect();
        kept.into_values().fold(0, u32::saturating_add)
    }

    /// Whether a return that the ledger does not name may be one whose row was deleted there. The order's row has more
    /// returned units than its returns name; a return of at most as many may be among them.
    fn may_be_settled(&self, number: u32, units: u32) -> bool {
        units <= self.settled.unnamed_returns(number)
    }

    /// Names the orders whose units the engine has returned and the union has not: the ledger may have settled these
    /// returns, and their rows are gone.
    pub(super) fn report_unproven_returns(&mut self) {
        for (number, row) in &self.survey.engine.rows.grants {
            let known = self.rows.grants.get(number);
            let is_ahead = known.is_some_and(|known| {
                known.user == row.user && known.units() > row.units() && row.units() > 0
            });
            if is_ahead && self.settled.unnamed_returns(*number) > 0 {
                let (kind, campaign) = (DifferenceKind::StateDiffers, self.facts().campaign);
                let found = Difference::of(kind, campaign, *number, Some(row), known);
                self.conflicts.extend(found);
            }
        }
    }

    /// Returns of an order that are not settled: keys and units.
    fn new_returns(&self, number: u32) -> impl Iterator<Item = (&IdempotencyKey, u32)> {
        self.rows.returns_of(number).filter(move |(key, units)| {
            let key = (number, (*key).clone());
            !self.settled.returns.contains_key(&key) && !self.may_be_settled(number, *units)
        })
    }

    /// Units of an order that returns of parts return: settled ones, named there or not, and new ones.
    fn returned_by_parts(&self, number: u32) -> u32 {
        let settled = self.settled.returned_in_parts(number) + self.settled.unnamed_returns(number);
        let new = self.new_returns(number).map(|(_, units)| units);
        new.fold(settled, u32::saturating_add)
    }

    /// Returns of the engine that the union lacks.
    pub(super) fn refused_returns(&self) -> Vec<(u32, IdempotencyKey)> {
        let returns = self.survey.engine.rows.returns.keys();
        let refused = returns.filter(|key| !self.rows.returns.contains_key(*key));
        refused.cloned().collect()
    }

    /// Returns of an order that is paid in what will be settled: of parts, and of what they leave if all is returned.
    pub(super) fn returns(&self, number: u32, row: &GrantRow) -> Vec<Event> {
        let mut events: Vec<_> = self
            .new_returns(number)
            .map(|(key, quantity)| {
                let key = key.clone();
                let part = Some(ReturnPart { quantity, key });
                Event::Returned { number, part }
            })
            .collect();
        let is_left = self.returned_by_parts(number) < row.quantity;
        if row.state == OrderState::Returned && is_left {
            events.push(Event::Returned { number, part: None });
        }
        events
    }
}
