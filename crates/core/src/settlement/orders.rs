//! Orders that a run of entries changes.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::rows::{KnownCampaign, KnownOrder, NewOrder, OrderChange};
use crate::{
    event::{Entry, Event},
    order::{OrderState, owed_for_returned, price_of_units},
    rows::Contradiction,
    time::Timestamp,
};

/// Orders that entries change but do not create: distinct campaigns and numbers, in order. Orders of unknown campaigns
/// are left out.
pub fn wanted_orders(entries: &[Entry], campaigns: &[KnownCampaign]) -> Vec<(i64, i64)> {
    let steps = |event: &Event| event.number().is_some() && !is_grant(event);
    if !entries.iter().any(|entry| steps(&entry.event)) {
        return Vec::new();
    }
    let refs: HashMap<_, _> = campaigns
        .iter()
        .map(|known| (known.id, known.campaign_ref))
        .collect();
    let order_of = |entry: &Entry| {
        let number = i64::from(entry.event.number()?);
        Some((*refs.get(&entry.campaign)?, number))
    };
    let (made, stepped): (Vec<_>, Vec<_>) = entries.iter().partition(|e| is_grant(&e.event));
    let mut wanted: BTreeSet<_> = stepped.into_iter().filter_map(order_of).collect();
    for order in made.into_iter().filter_map(order_of) {
        wanted.remove(&order);
    }
    wanted.into_iter().collect()
}

fn is_grant(event: &Event) -> bool {
    matches!(event, Event::Granted { .. })
}

/// State of an order after the entries so far.
#[derive(Debug)]
struct PlannedOrder<'a> {
    row: NewOrder<'a>,
    /// Minor units that paid it. `None` if it is not paid, or if an earlier payment matched its price.
    paid_minor: Option<i64>,
    /// Whether the ledger already has it.
    known: bool,
    changed: bool,
    /// Whether its state has changed.
    moved: bool,
    /// Milliseconds by which its hold is extended.
    extended_ms: i64,
}

/// A return of units of an order.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderReturn<'a> {
    /// The buyer.
    pub(super) user: &'a str,
    /// Units.
    pub(super) units: i64,
    /// Minor units of the refund that becomes due.
    pub(super) owed_minor: i64,
}

/// Orders by campaign and number.
#[derive(Debug, Default)]
pub(super) struct PlannedOrders<'a> {
    orders: Vec<PlannedOrder<'a>>,
    places: HashMap<(i64, i64), usize>,
    /// Users with an order that keeps its units, in sales with a limit of one unit per user.
    once: HashSet<(i64, &'a str)>,
}

impl<'a> PlannedOrders<'a> {
    pub(super) fn from_known_orders(known: &'a [KnownOrder], campaigns: &[KnownCampaign]) -> Self {
        let once: HashSet<_> = campaigns
            .iter()
            .filter(|known| known.one_per_user)
            .map(|known| known.campaign_ref)
            .collect();
        let mut all = Self::default();
        for order in known {
            let row = NewOrder {
                campaign: order.campaign,
                number: order.number,
                user: &order.user,
                quantity: order.quantity,
                amount: order.amount,
                state: order.state,
                returned_in_parts: order.returned_in_parts,
                cancelled_in_parts: order.cancelled_in_parts,
                one_per_user: once.contains(&order.campaign),
                granted_at: 0,
                hold_until: 0,
                extension_ms: order.extension_ms,
                updated_at: 0,
                key: None,
            };
            if row.one_per_user && row.state.keeps_units() {
                all.once.insert((row.campaign, row.user));
            }
            all.places
                .insert((row.campaign, row.number), all.orders.len());
            all.orders.push(PlannedOrder {
                row,
                paid_minor: order.paid_minor,
                known: true,
                changed: false,
                moved: false,
                extended_ms: 0,
            });
        }
        all
    }

    pub(super) fn add(&mut self, row: NewOrder<'a>) -> Result<(), Contradiction> {
        let (campaign, number) = (row.campaign, row.number);
        let before = self.places.insert((campaign, number), self.orders.len());
        if before.is_some() {
            return Err(Contradiction::new(format!(
                "order {number} of #{campaign} is granted twice"
            )));
        }
        self.check_once(&row)?;
        self.orders.push(PlannedOrder {
            row,
            paid_minor: None,
            known: false,
            changed: false,
            moved: false,
            extended_ms: 0,
        });
        Ok(())
    }

    /// Changes the state of an order, and returns its units.
    pub(super) fn step(
        &mut self,
        campaign: i64,
        number: u32,
        state: OrderState,
        at: Timestamp,
    ) -> Result<i64, Contradiction> {
        let place = self.place(campaign, number)?;
        let order = &mut self.orders[place];
        let before = order.row.state.keeps_units();
        (order.row.state, order.row.updated_at) = (state, at.as_millis());
        (order.changed, order.moved) = (true, true);
        let row = order.row;
        if row.one_per_user && before && !state.keeps_units() {
            self.once.remove(&(campaign, row.user));
        } else if !before && state.keeps_units() {
            self.check_once(&row)?;
        }
        Ok(row.quantity)
    }

    /// Takes the units of a held order, because it was cancelled or its hold ended. Returns its units.
    pub(super) fn end_hold(
        &mut self,
        campaign: i64,
        number: u32,
        state: OrderState,
        at: Timestamp,
    ) -> Result<i64, Contradiction> {
        let before = self.row(campaign, number)?.state;
        if before != OrderState::Held {
            return Err(Contradiction::new(format!(
                "order {number} of #{campaign} is {before}: it cannot become {state}"
            )));
        }
        self.step(campaign, number, state, at)
    }

    /// Extends the hold of a held order, once.
    pub(super) fn extend_hold(
        &mut self,
        campaign: i64,
        number: u32,
        extension_ms: i64,
    ) -> Result<(), Contradiction> {
        let place = self.place(campaign, number)?;
        let order = &mut self.orders[place];
        let (state, before) = (order.row.state, order.row.extension_ms);
        if state != OrderState::Held || before != 0 {
            return Err(Contradiction::new(format!(
                "order {number} of #{campaign} is {state}, extended by {before} ms: its hold cannot be extended"
            )));
        }
        (order.changed, order.extended_ms) = (true, extension_ms);
        order.row.extension_ms = extension_ms;
        order.row.hold_until = order.row.hold_until.saturating_add(extension_ms);
        Ok(())
    }

    /// Cancels units of a held order that keeps at least one. Returns their price.
    pub(super) fn cancel_units(
        &mut self,
        campaign: i64,
        number: u32,
        units: i64,
    ) -> Result<i64, Contradiction> {
        let place = self.place(campaign, number)?;
        let order = &mut self.orders[place];
        let NewOrder {
            quantity,
            amount,
            state,
            ..
        } = order.row;
        if state != OrderState::Held || !(1..quantity).contains(&units) {
            return Err(Contradiction::new(format!(
                "order {number} of #{campaign} is {state} and has {quantity} units: {units} cannot be cancelled"
            )));
        }
        let count = |units: i64| u32::try_from(units).unwrap_or(u32::MAX);
        let left = price_of_units(amount, count(quantity - units), count(quantity));
        order.changed = true;
        order.row.quantity -= units;
        order.row.amount = left;
        order.row.cancelled_in_parts += units;
        Ok(amount - left)
    }

    /// Returns `part` units of a paid order, or all remaining ones. The order becomes returned with its last unit, and
    /// has the time of that return.
    pub(super) fn return_units(
        &mut self,
        campaign: i64,
        number: u32,
        part: Option<i64>,
        at: Timestamp,
    ) -> Result<OrderReturn<'a>, Contradiction> {
        let place = self.place(campaign, number)?;
        let order = &mut self.orders[place];
        let NewOrder {
            user,
            quantity,
            amount,
            state,
            returned_in_parts: before,
            ..
        } = order.row;
        let paid_minor = order.paid_minor.unwrap_or(amount);
        let units = part.unwrap_or(quantity - before);
        if state != OrderState::Paid || units < 1 || before + units > quantity {
            return Err(Contradiction::new(format!(
                "order {number} of #{campaign} is {state} and returned {before} of {quantity} units: {units} cannot be \
                 returned"
            )));
        }
        order.changed = true;
        if part.is_some() {
            order.row.returned_in_parts += units;
        }
        if before + units == quantity {
            self.step(campaign, number, OrderState::Returned, at)?;
        }
        let count = |units: i64| u32::try_from(units).unwrap_or(u32::MAX);
        let owed = |units| owed_for_returned(paid_minor, count(units), count(quantity));
        Ok(OrderReturn {
            user,
            units,
            owed_minor: owed(before + units) - owed(before),
        })
    }

    /// Records that users of this sale may have had more than one unit from here on.
    pub(super) fn loosen(&mut self, campaign: i64) {
        for order in &mut self.orders {
            order.row.one_per_user &= order.row.campaign != campaign;
        }
    }

    /// Buyer and price of an order.
    pub(super) fn buyer(
        &self,
        campaign: i64,
        number: u32,
    ) -> Result<(&'a str, i64), Contradiction> {
        let row = &self.orders[self.place(campaign, number)?].row;
        Ok((row.user, row.amount))
    }

    /// Records the minor units that paid an order.
    pub(super) fn note_paid(
        &mut self,
        campaign: i64,
        number: u32,
        minor: i64,
    ) -> Result<(), Contradiction> {
        let place = self.place(campaign, number)?;
        self.orders[place].paid_minor = Some(minor);
        Ok(())
    }

    /// State of an order after the entries so far.
    pub(super) fn row(&self, campaign: i64, number: u32) -> Result<&NewOrder<'a>, Contradiction> {
        Ok(&self.orders[self.place(campaign, number)?].row)
    }

    fn place(&self, campaign: i64, number: u32) -> Result<usize, Contradiction> {
        let place = self.places.get(&(campaign, i64::from(number))).copied();
        place.ok_or_else(|| {
            Contradiction::new(format!(
                "order {number} of #{campaign} is not in the ledger"
            ))
        })
    }

    /// Checks the unique key of the table for every intermediate state, because the table sees only the final ones.
    fn check_once(&mut self, row: &NewOrder<'a>) -> Result<(), Contradiction> {
        if row.one_per_user && !self.once.insert((row.campaign, row.user)) {
            return Err(Contradiction::new(format!(
                "order {} of #{} is one too many for its user",
                row.number, row.campaign
            )));
        }
        Ok(())
    }

    /// Final rows of the new orders, and changes of the others.
    pub(super) fn into_rows(self) -> (Vec<NewOrder<'a>>, Vec<OrderChange>) {
        let (mut new, mut changes) = (Vec::new(), Vec::new());
        for order in self.orders {
            let row = order.row;
            if !order.known {
                new.push(row);
            } else if order.changed {
                changes.push(OrderChange {
                    campaign: row.campaign,
                    number: row.number,
                    state: row.state,
                    returned_in_parts: row.returned_in_parts,
                    quantity: row.quantity,
                    amount: row.amount,
                    cancelled_in_parts: row.cancelled_in_parts,
                    extension_ms: order.extended_ms,
                    at: order.moved.then_some(row.updated_at),
                });
            }
        }
        (new, changes)
    }
}
