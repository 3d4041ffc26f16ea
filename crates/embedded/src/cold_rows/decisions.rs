//! Rows for the decision of tasks about a campaign that the book does not have.

use std::collections::BTreeSet;

use qiang_core::{
    book::{Claim, Command, Excerpt},
    campaign::{CampaignKind, Phase},
    id::{CampaignId, UserId},
    rows::has_fixed_shares,
};
use rusqlite::{Connection, params};

use super::{GrantRows, excerpt, grant, held_longer, numbers_of};
use crate::{
    error::DataFileError,
    ledger::campaigns,
    recall::{has_set_aside, last_order},
};

/// Maximum orders of one user in all sales, which the index of users leads through.
const ORDERS_MAX: usize = 1_024;
/// Counts the orders of a user up to a limit.
pub(super) const COUNT_ORDERS: &str = "SELECT count(*) FROM \
     (SELECT 1 FROM orders INDEXED BY orders_of_user WHERE user = ?1 LIMIT ?2)";

/// Users and orders that tasks about one campaign are about.
#[derive(Default)]
pub(crate) struct DecisionRows<'a> {
    users: Vec<&'a UserId>,
    orders: Vec<u32>,
    /// Number of claims.
    claims: u32,
    /// Whether a task extends a hold, so that the extended ones must be counted.
    extends: bool,
}

impl<'a> DecisionRows<'a> {
    pub(crate) fn add_claim(&mut self, claim: &'a Claim) {
        self.users.push(&claim.user);
        self.claims += 1;
    }

    pub(crate) fn add_command(&mut self, command: &Command) {
        match command.without_key() {
            Command::Pay { order, .. }
            | Command::Cancel { order, .. }
            | Command::Return { order, .. } => self.orders.push(order.number),
            Command::ExtendHold { order, .. } => {
                self.orders.push(order.number);
                self.extends = true;
            }
            // They need the counters alone.
            Command::Open(_)
            | Command::Act { .. }
            | Command::Tick { .. }
            | Command::SetStock { .. }
            | Command::SetTerms { .. }
            | Command::SetSale { .. }
            | Command::Correct { .. }
            | Command::Keyed { .. } => {}
        }
    }

    /// Reads the rows of a settled campaign. `None` if it has not opened, if the ledger does not have all of its
    /// entries, or if there are more than `grants_max` grants.
    pub(crate) fn read(
        &self,
        conn: &Connection,
        id: CampaignId,
        grants_max: usize,
    ) -> Result<Option<Excerpt>, DataFileError> {
        let Some(row) = campaigns::row_by_id(conn, id)? else {
            return Ok(None);
        };
        let (campaign_ref, record) = (row.campaign_ref, row.record()?);
        if record.phase == Phase::Draft || has_set_aside(conn, id)? {
            return Ok(None);
        }
        let kind = record.campaign.kind();
        // The date of the last grant bounds that of the next.
        let last = match kind {
            CampaignKind::RedPacket => u32::try_from(record.granted).unwrap_or(u32::MAX),
            CampaignKind::Sale => last_order(conn, campaign_ref)?,
        };
        let mut numbers = BTreeSet::from([last]);
        let mut users: BTreeSet<UserId> = self.users.iter().map(|user| (*user).clone()).collect();
        if kind == CampaignKind::Sale {
            for number in &self.orders {
                // A late payment depends on what its buyer has.
                let order = grant(conn, campaign_ref, kind, *number)?;
                let buyer = order.and_then(|order| Some(order.granted?.0));
                users.extend(buyer);
            }
            if self.extends {
                let extended = held_longer(conn, campaign_ref)?;
                numbers.extend(extended.iter().map(|row| row.number));
            }
        }
        for user in &users {
            if kind == CampaignKind::Sale && has_many_orders(conn, user)? {
                return Ok(None);
            }
            numbers.extend(numbers_of(conn, campaign_ref, kind, user)?);
            if numbers.len() > grants_max {
                return Ok(None);
            }
        }
        let mut rows = Vec::with_capacity(numbers.len());
        for number in numbers {
            rows.extend(grant(conn, campaign_ref, kind, number)?);
        }
        #[cfg(test)]
        crate::recall::ROWS_READ.with(|read| read.set(read.get() + rows.len() as u64));
        let supply = record.campaign.supply();
        let are_fixed = has_fixed_shares(&record.campaign);
        let mut found = excerpt((conn, campaign_ref), record, &rows, GrantRows::Parts)?;
        if are_fixed {
            let mut amounts = Vec::new();
            let upto = u64::from(last.saturating_add(self.claims)).min(supply);
            for number in u64::from(last) + 1..=upto {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let share = grant(conn, campaign_ref, kind, number)?;
                match share.and_then(|share| share.amount_minor) {
                    Some(amount_minor) => amounts.push(amount_minor),
                    None => return Ok(None), // the reload reports it
                }
            }
            found.set_amounts(last.saturating_add(1), &amounts);
        }
        Ok(Some(found))
    }
}

fn has_many_orders(conn: &Connection, user: &UserId) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached(COUNT_ORDERS)?;
    let limit = ORDERS_MAX as i64 + 1;
    let count: i64 = statement.query_row(params![user.as_str(), limit], |row| row.get(0))?;
    Ok(count == limit)
}
