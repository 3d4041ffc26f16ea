//! Entries in quarantine, as rows of `set_aside`.

use std::collections::BTreeMap;

use super::{Contradiction, Value};
use crate::{
    event::{Entry, Event, PartitionId, Seq},
    id::CampaignId,
    order::OrderState,
    ports::{QuarantinedEntry, SettledPayment, SettledReturn, SettledRow},
    time::Timestamp,
};

/// How much of a reason is kept, in characters.
const REASON_MAX: usize = 2_000;

/// An entry that goes into quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineRow {
    /// Its place in the log.
    pub seq: i64,
    /// Its campaign's id, which the ledger may not have.
    pub campaign: String,
    /// The entry as text.
    pub entry: String,
    /// Why it is there.
    pub reason: String,
    /// The entry that it waits for; none if it was refused itself.
    pub waits_for: Option<i64>,
    /// When, in milliseconds.
    pub at: i64,
    /// How far it is discarded: see [`DiscardState`].
    pub discard: i64,
}

/// How far an entry in quarantine is discarded: the column `discard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i64)]
pub enum DiscardState {
    /// It is not: it may be settled yet.
    Not = 0,
    /// It is a grant whose units are to come back.
    Asked = 1,
    /// It is a grant whose units are back; what waited for it is to be redriven.
    Freed = 2,
    /// Nothing is left to do.
    Done = 3,
}

impl DiscardState {
    /// Whether a column says that the entry is discarded: then it is in nobody's way.
    #[must_use]
    pub fn is_over(column: i64) -> bool {
        column >= Self::Freed as i64
    }
}

impl QuarantineRow {
    /// An entry that the ledger refused.
    pub fn refused(entry: &Entry, reason: &str, now: Timestamp) -> Self {
        Self {
            seq: entry.seq as i64,
            campaign: entry.campaign.to_string(),
            entry: entry.to_text(),
            // What a database says may be long, and have characters that another one does not take.
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

    /// An entry that waits for another one.
    pub fn waiting(entry: &Entry, before: Seq) -> Self {
        Self {
            waits_for: Some(before as i64),
            ..Self::refused(entry, &format!("it waits for entry {before}"), entry.at)
        }
    }

    /// The columns `partition`, `seq`, `campaign`, `entry`, `reason`, `waits_for` and `at`.
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

    /// The row of a partition as the port gives it.
    ///
    /// # Errors
    /// When a column holds what was never written.
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

/// What the text of a campaign's grant with this number is `LIKE`.
#[must_use]
pub fn like_grant(campaign: CampaignId, number: u32) -> String {
    format!("% {campaign} granted {number} %")
}

/// An order of discarded entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardedOrder {
    /// The order.
    pub row: SettledRow,
    /// Payments that arrived for it.
    pub payments: Vec<SettledPayment>,
    /// Returns of parts of it.
    pub returns: Vec<SettledReturn>,
}

/// The orders of discarded entries, in the order of their numbers, as orders that gave their units back: that is what
/// an engine has of them.
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
            returns.extend(part.clone().map(|part| SettledReturn { number, part }));
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

/// Up to `limit` settled rows behind a number, with the orders of discarded entries among them.
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

/// The settled payments of orders with numbers above `after` up to and with `upto`, with those of discarded entries.
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

/// The settled returns of parts of orders with numbers above `after` up to and with `upto`, with those of discarded
/// entries.
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

/// The entry that was kept as text.
///
/// # Errors
/// When it is not the entry of that place.
pub fn entry_of(seq: i64, text: &str) -> Result<Entry, Contradiction> {
    let entry = Entry::from_text(text).ok();
    let entry = entry.filter(|entry| entry.seq as i64 == seq);
    entry.ok_or_else(|| bad(seq, "is no entry"))
}

fn bad(seq: i64, what: &str) -> Contradiction {
    Contradiction::new(format!("entry {seq}, which is in quarantine, {what}"))
}
