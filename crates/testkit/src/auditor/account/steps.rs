//! State changes of orders: the units that they move, the price of a cancelled part, and the refund due of a return.

use qiang_core::{
    campaign::{CampaignKind, Sale},
    order::ReturnPart,
};

use super::{Account, Checked, RowState, check, transfer};

impl Account {
    pub(super) fn step(&mut self, number: u32, from: RowState, to: RowState) -> Checked {
        let sale = self.setup.campaign.kind() == CampaignKind::Sale;
        check(sale, "a share changed its state like an order")?;
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        check(
            row.state == from,
            "the order was not in the state that the event requires",
        )?;
        let (had, quantity) = (row.has_units(), i64::from(row.quantity));
        row.state = to;
        let closed = self.parts.get(&row.log).is_some_and(|part| part.closed);
        let stock = if closed { 2 } else { 0 };
        match (had, row.has_units()) {
            (true, false) => transfer(&mut self.units, 1, stock, quantity),
            (false, true) => transfer(&mut self.units, stock, 1, quantity),
            _ => {}
        }
        Ok(())
    }

    /// Extends the hold of a held order, once, by at most the hold of the sale.
    pub(super) fn extend_hold(&mut self, number: u32, extension_ms: i64) -> Checked {
        let hold_ms = self.setup.campaign.rules.sale().map_or(0, Sale::hold_ms);
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        check(row.state == RowState::Had, "extended no hold")?;
        check(row.extension_ms == 0, "extended a hold twice")?;
        check(
            (1..=hold_ms).contains(&extension_ms),
            "extended a hold beyond its bound",
        )?;
        row.extension_ms = extension_ms;
        Ok(())
    }

    /// Cancels units of a held order that keeps at least one. Its price falls by theirs.
    pub(super) fn cancel_units(&mut self, number: u32, part: &ReturnPart) -> Checked {
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        let units = part.quantity;
        check(
            row.state == RowState::Had,
            "cancelled units of no held order",
        )?;
        check(
            0 < units && units < row.quantity,
            "cancelled other units than a part of the order",
        )?;
        let key = part.key.to_string();
        let is_new = !row.returns.contains_key(&key);
        let before = row.cancellations.insert(key, units);
        check(is_new && before.is_none(), "restocked twice under one key")?;
        row.amount_minor -= row.amount_minor / i64::from(row.quantity) * i64::from(units);
        row.quantity -= units;
        row.cancelled += units;
        let closed = self.parts.get(&row.log).is_some_and(|part| part.closed);
        let stock = if closed { 2 } else { 0 };
        transfer(&mut self.units, 1, stock, i64::from(units));
        Ok(())
    }

    /// Returns units of a paid order, or all that are left. All returns so far owe their fraction of the money that
    /// paid the order, rounded down.
    pub(super) fn return_units(&mut self, number: u32, part: Option<&ReturnPart>) -> Checked {
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        check(
            row.state == RowState::Paid,
            "returned an order that was not paid",
        )?;
        let left = row.quantity - row.returned;
        let units = part.map_or(left, |part| part.quantity);
        check(
            0 < units && units <= left,
            "returned more units than were left",
        )?;
        if let Some(part) = part {
            let before = row.returns.insert(part.key.to_string(), units);
            check(before.is_none(), "returned twice under one key")?;
        }
        let paid = i128::from(row.paid_minor.unwrap_or(0));
        let owed = |returned: u32| (paid * i128::from(returned)).div_euclid(row.quantity.into());
        let minor = owed(row.returned + units) - owed(row.returned);
        row.last_owed_minor = i64::try_from(minor).map_err(|error| error.to_string())?;
        row.returned += units;
        if row.returned == row.quantity {
            row.state = RowState::Returned;
        }
        let closed = self.parts.get(&row.log).is_some_and(|part| part.closed);
        let stock = if closed { 2 } else { 0 };
        transfer(&mut self.units, 1, stock, i64::from(units));
        Ok(())
    }
}
