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
        let is_known = self.rows.returns.contains_key(&key);
        if is_settled || !fits || is_known || self.rows.cancellations.contains_key(&key) {
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

    /// Names the orders of which engine or nodes have more units returned than the union. The ledger may have settled
    /// these returns, and their rows are gone.
    pub(super) fn report_unproven_returns(&mut self) {
        let (kind, campaign) = (DifferenceKind::StateDiffers, self.facts().campaign);
        for (number, known) in &self.rows.grants {
            let unnamed = self.settled.unnamed_returns(*number);
            if unnamed == 0 || known.units() == 0 {
                continue;
            }
            let row = self.survey.engine.rows.grants.get(number);
            let row = row.filter(|row| row.user == known.user && row.units() > 0);
            let of_engine = row.map_or(0, |row| row.returned);
            let claimed = self.maybe_settled_returns(*number).map(|(_, units)| units);
            let claimed = claimed.fold(0, u32::saturating_add);
            let in_answers = known
                .returned
                .saturating_add(claimed - claimed.min(unnamed));
            let returned = of_engine.max(in_answers).min(known.quantity);
            if returned > known.returned {
                let engine = GrantRow {
                    returned,
                    ..known.clone()
                };
                let found = Difference::new(kind, campaign, *number, Some(&engine), Some(known));
                self.conflicts.extend(found);
            }
        }
    }

    /// Returns of an order that are not settled: keys and units.
    fn new_returns(&self, number: u32) -> impl Iterator<Item = (&IdempotencyKey, u32)> {
        let unnamed = self.unnamed_by_ledger(number);
        unnamed.filter(move |(_, units)| !self.may_be_settled(number, *units))
    }

    /// Returns of an order that the ledger does not name, and may have settled.
    fn maybe_settled_returns(&self, number: u32) -> impl Iterator<Item = (&IdempotencyKey, u32)> {
        let unnamed = self.unnamed_by_ledger(number);
        unnamed.filter(move |(_, units)| self.may_be_settled(number, *units))
    }

    fn unnamed_by_ledger(&self, number: u32) -> impl Iterator<Item = (&IdempotencyKey, u32)> {
        self.rows.returns_of(number).filter(move |(key, _)| {
            let key = (number, (*key).clone());
            !self.settled.returns.contains_key(&key)
        })
    }

    /// Units of an order that returns of parts return: settled ones, named there or not, and new ones.
    fn returned_by_parts(&self, number: u32) -> u32 {
        let settled = self.settled.returned_in_parts(number) + self.settled.unnamed_returns(number);
        let new = self.new_returns(number).map(|(_, units)| units);
        new.fold(settled, u32::saturating_add)
    }

    /// Cancellations and returns of the engine that the union lacks.
    pub(super) fn refused_parts(&self) -> Vec<(u32, IdempotencyKey)> {
        let (engine, rows) = (&self.survey.engine.rows, &self.rows);
        let parts = engine.returns.keys().chain(engine.cancellations.keys());
        let refused = parts.filter(|key| {
            !rows.returns.contains_key(*key) && !rows.cancellations.contains_key(*key)
        });
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
