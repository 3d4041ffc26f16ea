//! Quarantined entries, as rows of `set_aside`.

use std::collections::BTreeMap;

use super::{Contradiction, Value};
use crate::{
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, UserId},
    order::{OrderState, PartKind, price_of_units},
    ports::{QuarantinedEntry, SettledPayment, SettledReturn, SettledRow},
    time::Timestamp,
};

/// Maximum characters of a reason that are kept.
const REASON_MAX: usize = 2_000;

/// Row of a quarantined entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineRow {
    /// Log position.
    pub seq: i64,
    /// Id of its campaign, which the ledger may lack.
    pub campaign: String,
    /// The entry as text.
    pub entry: String,
    /// Reason for the quarantine.
    pub reason: String,
    /// Entry that it waits for; `None` if the ledger refused it.
    pub waits_for: Option<i64>,
    /// Time, in milliseconds.
    pub at: i64,
    /// Progress of its discard: see [`DiscardState`].
    pub discard: i64,
}

/// Progress of a quarantined entry's discard: the column `discard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i64)]
pub enum DiscardState {
    /// Not discarded. It may still be settled.
    Not = 0,
    /// A grant that must be discarded; its units are not restocked yet.
    Asked = 1,
    /// A grant with restocked units. Entries that waited for it must be redriven.
    Freed = 2,
    /// The discard is complete.
    Done = 3,
}

impl DiscardState {
    /// Whether a column value means that the entry is discarded, and blocks no other entry.
    #[must_use]
    pub fn is_over(column: i64) -> bool {
        column >= Self::Freed as i64
    }
}

impl QuarantineRow {
    /// Row of an entry that the ledger refused.
    pub fn refused(entry: &Entry, reason: &str, now: Timestamp) -> Self {
        Self {
            seq: entry.seq as i64,
            campaign: entry.campaign.to_string(),
            entry: entry.to_text(),
            // Error texts of databases may be long, and may have characters that another database rejects.
            reason: reason
                .chars()
                .filter(|character| !character.is_control())
                .take(REASON_MAX)
                .collect(),
            waits_for: None,
            at: now.as_millis(),
            discard: DiscardState::Not as i64,
        }
    }

    /// Row of an entry that waits for another one.
    pub fn waiting(entry: &Entry, before: Seq) -> Self {
        Self {
            waits_for: Some(before as i64),
            ..Self::refused(entry, &format!("it waits for entry {before}"), entry.at)
        }
    }

    /// Columns `partition`, `seq`, `campaign`, `entry`, `reason`, `waits_for` and `at`.
    pub fn columns(&self, partition: PartitionId) -> [Value<'_>; 7] {
        [
            i64::from(partition.0).into(),
            self.seq.into(),
            self.campaign.as_str().into(),
            self.entry.as_str().into(),
            self.reason.as_str().into(),
            self.waits_for.into(),
            self.at.into(),
        ]
    }

    /// Converts the row to the entry of the port.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn listed(self, partition: i64) -> Result<QuarantinedEntry, Contradiction> {
        let partition = u16::try_from(partition);
        Ok(QuarantinedEntry {
            partition: PartitionId(partition.map_err(|_| bad(self.seq, "has a bad partition"))?),
            entry: entry_of(self.seq, &self.entry)?,
            reason: self.reason,
            waits_for: self.waits_for.map(|seq| seq as Seq),
            at: Timestamp::from_millis(self.at),
            is_discarded: self.discard == DiscardState::Asked as i64,
        })
    }
}

/// `LIKE` pattern of the text of a campaign's grant with this number.
#[must_use]
pub fn like_grant(campaign: CampaignId, number: u32) -> String {
    format!("% {campaign} granted {number} %")
}

/// An order that was discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardedOrder {
    /// Row of the order.
    pub row: SettledRow,
    /// Payments for the order.
    pub payments: Vec<SettledPayment>,
    /// Partial cancellations and returns of the order.
    pub returns: Vec<SettledReturn>,
}

/// Orders of discarded entries, by number. They have released their units, as in the engine.
#[must_use]
pub fn discarded_orders(entries: &[Entry]) -> Vec<DiscardedOrder> {
    let mut orders: BTreeMap<u32, DiscardedOrder> = BTreeMap::new();
    for Entry { at, event, .. } in entries {
        if let Event::Granted {
            number,
            user,
            quantity,
            amount_minor,
            key,
        } = event
        {
            let row = SettledRow {
                number: *number,
                amount_minor: Some(*amount_minor),
                granted: Some((user.clone(), *at)),
                quantity: *quantity,
                state: OrderState::Held,
                returned: 0,
                cancelled: 0,
                extension_ms: 0,
                key: key.clone(),
            };
            orders.entry(*number).or_insert(DiscardedOrder {
                row,
                payments: Vec::new(),
                returns: Vec::new(),
            });
            continue;
        }
        let order = event.number().and_then(|number| orders.get_mut(&number));
        let Some(DiscardedOrder {
            row,
            payments,
            returns,
        }) = order
        else {
            continue;
        };
        if let Event::Returned { number, part } = event {
            let units = part.as_ref().map_or(row.quantity, |part| part.quantity);
            row.returned = row.returned.saturating_add(units).min(row.quantity);
            let number = *number;
            let kind = PartKind::Return;
            let part = part.clone();
            returns.extend(part.map(|part| SettledReturn { number, kind, part }));
        }
        if let Event::HoldExtended { extension_ms, .. } = event {
            row.extension_ms = *extension_ms;
        }
        if let Event::PartCancelled { number, part } = event {
            let left = row.quantity.saturating_sub(part.quantity);
            let price = row.amount_minor;
            row.amount_minor = price.map(|price| price_of_units(price, left, row.quantity));
            row.cancelled = row.cancelled.saturating_add(part.quantity);
            row.quantity = left;
            returns.push(SettledReturn {
                number: *number,
                kind: PartKind::Cancellation,
                part: part.clone(),
            });
        }
        row.state = match event {
            Event::Paid { .. } | Event::Reinstated { .. } => OrderState::Paid,
            Event::Cancelled { .. } => OrderState::Cancelled,
            Event::Expired { .. } => OrderState::Expired,
            Event::Returned { .. } if row.returned == row.quantity => OrderState::Returned,
            _ => row.state,
        };
        payments.extend(event.payment().map(|(payment, state)| SettledPayment {
            number: row.number,
            payment: payment.clone(),
            outcome: state.outcome,
            received: state.received,
        }));
    }
    orders.into_values().collect()
}

/// Up to `limit` settled rows after a number, including the orders of discarded entries.
#[must_use]
pub fn with_discarded(
    mut rows: Vec<SettledRow>,
    discarded: &[Entry],
    (after, limit): (u32, u32),
) -> Vec<SettledRow> {
    let limit = limit as usize;
    let full = rows.last().filter(|_| rows.len() >= limit);
    let end = full.map_or(u32::MAX, |last| last.number);
    for DiscardedOrder { row, .. } in discarded_orders(discarded) {
        let behind = rows.binary_search_by_key(&row.number, |known| known.number);
        if let (true, Err(place)) = (row.number > after && row.number <= end, behind) {
            rows.insert(place, row);
        }
    }
    rows.truncate(limit);
    rows
}

/// Settled rows of a user, including the user's discarded orders.
#[must_use]
pub fn with_discarded_of_user(
    mut rows: Vec<SettledRow>,
    discarded: &[Entry],
    user: &UserId,
) -> Vec<SettledRow> {
    for DiscardedOrder { row, .. } in discarded_orders(discarded) {
        let is_of_user = row.granted.as_ref().is_some_and(|(owner, _)| owner == user);
        let behind = rows.binary_search_by_key(&row.number, |known| known.number);
        if let (true, Err(place)) = (is_of_user, behind) {
            rows.insert(place, row);
        }
    }
    rows
}

/// Settled payments of orders with numbers above `after`, up to and including `upto`, including those of discarded
/// entries.
#[must_use]
pub fn with_discarded_payments(
    mut payments: Vec<SettledPayment>,
    discarded: &[Entry],
    (after, upto): (u32, u32),
) -> Vec<SettledPayment> {
    let orders = discarded_between(discarded, (after, upto));
    payments.extend(orders.flat_map(|order| order.payments));
    payments.sort_by_key(|payment| payment.number);
    payments
}

/// Settled partial cancellations and returns of orders with numbers above `after`, up to and including `upto`, with
/// those of
/// discarded entries.
#[must_use]
pub fn with_discarded_returns(
    mut returns: Vec<SettledReturn>,
    discarded: &[Entry],
    (after, upto): (u32, u32),
) -> Vec<SettledReturn> {
    let orders = discarded_between(discarded, (after, upto));
    returns.extend(orders.flat_map(|order| order.returns));
    returns.sort_by_key(|it| it.number);
    returns
}

fn discarded_between(
    discarded: &[Entry],
    (after, upto): (u32, u32),
) -> impl Iterator<Item = DiscardedOrder> {
    let orders = discarded_orders(discarded).into_iter();
    orders.filter(move |order| order.row.number > after && order.row.number <= upto)
}

/// Parses the text of a quarantined entry.
///
/// # Errors
/// If it is not the entry of that position.
pub fn entry_of(seq: i64, text: &str) -> Result<Entry, Contradiction> {
    let entry = Entry::from_text(text).ok();
    let entry = entry.filter(|entry| entry.seq as i64 == seq);
    entry.ok_or_else(|| bad(seq, "is no entry"))
}

fn bad(seq: i64, what: &str) -> Contradiction {
    Contradiction::new(format!("entry {seq}, which is in quarantine, {what}"))
}
