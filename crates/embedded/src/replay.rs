//! Input of a replay: a campaign as it was before its first entry, and a check whether an entry fits the entries before
//! it.

use qiang_core::{
    book::{Book, Setup},
    campaign::{Rules, Sale, SaleSettings},
    event::{Entry, Event},
    id::OrderId,
    money::Money,
};
use rusqlite::Connection;

use crate::{error::DataFileError, ledger::campaigns, log};

/// A campaign as it was before its first entry. Its settled entries have changed the stock by `units`.
pub(crate) fn setup_before(
    conn: &Connection,
    campaign_ref: i64,
    units: i64,
) -> Result<Setup, DataFileError> {
    let sql = format!("{} WHERE ref = ?1", campaigns::SELECT);
    let row = conn.query_row(&sql, [campaign_ref], campaigns::row_of)?;
    let mut setup = campaigns::setup(conn, campaign_ref, row.record()?.campaign)?;
    // The row has stock and terms as settled, and the replay changes them from the first entry on.
    let first = log::first_terms(conn, campaign_ref)?;
    if !reduce_supply(&mut setup, units, first.as_ref()) {
        let id = setup.campaign.id;
        let reason = format!("the stock or the terms of {id} contradict its log");
        return Err(DataFileError::damaged(reason));
    }
    Ok(setup)
}

/// Reverts changes of stock and terms; returns whether that is possible.
fn reduce_supply(setup: &mut Setup, units: i64, first: Option<&SaleSettings>) -> bool {
    if units == 0 && first.is_none() {
        return true;
    }
    let Some(now) = SaleSettings::from_campaign(&setup.campaign) else {
        return false;
    };
    let before = first.unwrap_or(&now);
    let Rules::Sale(sale) = &mut setup.campaign.rules else {
        return false;
    };
    let price = Money::new(before.unit_price_minor, sale.unit_price().currency);
    let stock = u64::try_from(sale.stock() as i64 - units).ok();
    let rules =
        stock.and_then(|stock| Sale::new(stock, before.per_user_limit, price, sale.hold_ms()).ok());
    setup.campaign.window = before.window;
    rules
        .map(|rules| *sale = rules.with_admission(before.admission.ratio()))
        .is_some()
}

/// Fault of an entry, as far as the entries before it show: a book accepts only an entry that it could have decided.
pub(crate) fn contradiction(book: &Book, entry: &Entry) -> Option<&'static str> {
    let Some(tally) = book.tally(entry.at, entry.campaign) else {
        return Some("its campaign was never opened");
    };
    match &entry.event {
        Event::Granted {
            number, quantity, ..
        } => {
            if book.next_number(entry.campaign) != Some(*number) {
                return Some("its number is not the next one");
            }
            (u64::from(*quantity) > tally.remaining).then_some("it grants more than was left")
        }
        Event::Closed {
            returned,
            refunded_minor,
        } => {
            let all = (*returned, *refunded_minor) == (tally.remaining, tally.remaining_minor);
            (!all).then_some("what went back is not what was left")
        }
        Event::Paid { number, .. }
        | Event::Cancelled { number }
        | Event::PartCancelled { number, .. }
        | Event::Expired { number }
        | Event::HoldExtended { number, .. }
        | Event::Reinstated { number, .. }
        | Event::RefundDue { number, .. }
        | Event::Returned { number, .. } => {
            let order = OrderId {
                campaign: entry.campaign,
                number: *number,
            };
            let Some(view) = book.order(order) else {
                return Some("there is no such order");
            };
            let returned = view.grant.order.map_or(0, |order| order.returned_quantity);
            let left = view.grant.quantity - returned;
            match &entry.event {
                Event::Returned {
                    part: Some(part), ..
                } => (part.quantity > left).then_some("it returns more than the order has"),
                Event::PartCancelled { part, .. } => {
                    (part.quantity >= left).then_some("it cancels all that the order has")
                }
                Event::HoldExtended { .. } => {
                    let extended = view.grant.order.is_some_and(|order| order.extension_ms > 0);
                    extended.then_some("it extends a hold twice")
                }
                _ => None,
            }
        }
        Event::TransferredOut { .. }
        | Event::TransferredIn { .. }
        | Event::TransferReturned { .. } => Some("this engine spreads nothing"),
        Event::StockChanged { units } => {
            let taken = u64::try_from(-units).unwrap_or(0);
            (taken > tally.remaining).then_some("it takes more than was left")
        }
        Event::TermsChanged { revision, .. } if *revision != entry.seq => {
            Some("it is not the change that it says it is")
        }
        Event::TermsChanged { .. } => {
            (tally.funded_minor > 0).then_some("a packet's terms do not change")
        }
        Event::Opened { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Ended
        | Event::ChangeMade { .. } => None,
    }
}
