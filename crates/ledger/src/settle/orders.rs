//! The orders that a run of entries touches.

use std::collections::{HashMap, HashSet};

use qiang_core::{
    event::{Entry, Event},
    id::CampaignId,
    order::OrderState,
    time::Timestamp,
};

use crate::{
    error::StoreError,
    rows::{KnownCampaign, KnownOrder, NewOrder, OrderChange},
};

/// The orders that entries step and do not make, as campaign and number, each once.
pub(super) fn wanted(entries: &[Entry], refs: &HashMap<CampaignId, i64>) -> Vec<(i64, i64)> {
    let number_of = |event: &Event| match event {
        Event::Paid { number, .. }
        | Event::Reinstated { number, .. }
        | Event::RefundDue { number, .. }
        | Event::Cancelled { number }
        | Event::Expired { number } => Some(i64::from(*number)),
        _ => None,
    };
    let mut wanted = HashSet::new();
    for entry in entries {
        if let (Some(r), Some(number)) = (refs.get(&entry.campaign), number_of(&entry.event)) {
            wanted.insert((*r, number));
        }
    }
    if !wanted.is_empty() {
        for entry in entries {
            if let (Some(r), Event::Granted { number, .. }) =
                (refs.get(&entry.campaign), &entry.event)
            {
                wanted.remove(&(*r, i64::from(*number)));
            }
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable();
    wanted
}

/// An order as it stands after the entries up to here.
#[derive(Debug)]
struct Order<'a> {
    row: NewOrder<'a>,
    /// Whether the ledger has it.
    known: bool,
    changed: bool,
}

/// Orders by campaign and number.
#[derive(Debug)]
pub(super) struct Orders<'a> {
    orders: Vec<Order<'a>>,
    places: HashMap<(i64, i64), usize>,
    /// Who has an order with its units, among those of these orders whose sales let a user have one.
    once: HashSet<(i64, &'a str)>,
}

impl<'a> Orders<'a> {
    pub(super) fn of(known: &'a [KnownOrder], campaigns: &[KnownCampaign]) -> Self {
        let once: HashMap<_, _> = campaigns
            .iter()
            .map(|known| (known.r, known.one_per_user))
            .collect();
        let mut all = Self {
            orders: Vec::new(),
            places: HashMap::new(),
            once: HashSet::new(),
        };
        for order in known {
            let row = NewOrder {
                campaign: order.campaign,
                number: order.number,
                user: &order.user,
                quantity: order.quantity,
                amount: order.amount,
                state: order.state,
                one_per_user: once.get(&order.campaign).copied().unwrap_or(false),
                granted_at: 0,
                hold_until: 0,
                updated_at: 0,
            };
            if row.one_per_user && row.state.keeps_units() {
                all.once.insert((row.campaign, row.user));
            }
            all.places
                .insert((row.campaign, row.number), all.orders.len());
            all.orders.push(Order {
                row,
                known: true,
                changed: false,
            });
        }
        all
    }

    /// Enters a new order.
    pub(super) fn enter(&mut self, row: NewOrder<'a>) -> Result<(), StoreError> {
        let NewOrder {
            campaign, number, ..
        } = row;
        if self
            .places
            .insert((campaign, number), self.orders.len())
            .is_some()
        {
            return Err(StoreError::damaged(format!(
                "order {number} of #{campaign} is granted twice"
            )));
        }
        self.has_units(&row)?;
        self.orders.push(Order {
            row,
            known: false,
            changed: false,
        });
        Ok(())
    }

    /// Moves an order to another state; tells its units.
    pub(super) fn step(
        &mut self,
        campaign: i64,
        number: u32,
        state: OrderState,
        at: Timestamp,
    ) -> Result<i64, StoreError> {
        let place = self.place(campaign, number)?;
        let order = &mut self.orders[place];
        let before = order.row.state.keeps_units();
        (order.row.state, order.row.updated_at, order.changed) = (state, at.as_millis(), true);
        let row = order.row;
        if row.one_per_user && before && !state.keeps_units() {
            self.once.remove(&(campaign, row.user));
        } else if !before && state.keeps_units() {
            self.has_units(&row)?;
        }
        Ok(row.quantity)
    }

    /// Whose an order is, and its price.
    pub(super) fn buyer(&self, campaign: i64, number: u32) -> Result<(&'a str, i64), StoreError> {
        let row = &self.orders[self.place(campaign, number)?].row;
        Ok((row.user, row.amount))
    }

    fn place(&self, campaign: i64, number: u32) -> Result<usize, StoreError> {
        let place = self.places.get(&(campaign, i64::from(number))).copied();
        place.ok_or_else(|| {
            StoreError::damaged(format!(
                "order {number} of #{campaign} is not in the ledger"
            ))
        })
    }

    /// What the table's own key would refuse, if it saw the states between the first and the last.
    fn has_units(&mut self, row: &NewOrder<'a>) -> Result<(), StoreError> {
        if row.one_per_user && !self.once.insert((row.campaign, row.user)) {
            let NewOrder {
                campaign, number, ..
            } = row;
            let reason = format!("order {number} of #{campaign} is one too many for its user");
            return Err(StoreError::damaged(reason));
        }
        Ok(())
    }

    /// The new orders as they stand in the end, and the changes of the others.
    pub(super) fn into_rows(self) -> (Vec<NewOrder<'a>>, Vec<OrderChange>) {
        let (mut new, mut changes) = (Vec::new(), Vec::new());
        for Order {
            row,
            known,
            changed,
        } in self.orders
        {
            if !known {
                new.push(row);
            } else if changed {
                changes.push(OrderChange {
                    campaign: row.campaign,
                    number: row.number,
                    state: row.state,
                    at: row.updated_at,
                });
            }
        }
        (new, changes)
    }
}
