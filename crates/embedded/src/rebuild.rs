//! Rebuilding the book from the file.

use qiang_core::{
    book::{Book, Setup},
    campaign::Rules,
    event::{Entry, Event},
    id::OrderId,
};
use rusqlite::Connection;

use crate::{
    PARTITION,
    error::StoreError,
    ledger::{campaigns, settle},
    log,
    log::Refs,
};

/// Restores every campaign of the ledger, then replays the whole log. A contradiction is damage.
pub(crate) fn rebuild(conn: &Connection, refs: &mut Refs) -> Result<Book, StoreError> {
    let mut book = Book::new();
    let stock_changes = log::settled_stock_changes(conn)?;
    let mut bad_stock = None;
    campaigns::each_setup(conn, campaigns::Which::Opened, |campaign_ref, mut setup| {
        refs.insert(setup.campaign.id, campaign_ref);
        // The row has the stock as settled, and the replay changes it from the first entry on.
        let units = stock_changes.get(&campaign_ref).copied().unwrap_or(0);
        if !take_out_of_stock(&mut setup, units) {
            bad_stock.get_or_insert(setup.campaign.id);
        }
        book.restore(setup);
    })?;
    if let Some(id) = bad_stock {
        let reason = format!("the stock of {id} is not what its log makes of it");
        return Err(StoreError::damaged(reason));
    }
    let mut damage = None;
    log::read(conn, refs, 0, usize::MAX, |entry| {
        if damage.is_none() {
            damage = contradiction(&book, &entry).map(|what| (entry.seq, what));
        }
        if damage.is_none() {
            book.replay(&entry);
        }
    })?;
    if let Some((seq, what)) = damage {
        return Err(StoreError::damaged(format!(
            "entry {seq} of the log: {what}"
        )));
    }
    let (head, settled) = (book.head(), settle::position(conn, PARTITION)?);
    if settled > head {
        return Err(StoreError::damaged(format!(
            "settled up to entry {settled}, and the log ends at {head}"
        )));
    }
    for id in book.campaigns() {
        let sound = book
            .tally(qiang_core::time::Timestamp::from_millis(0), id)
            .is_some_and(|tally| tally.conserves());
        if !sound {
            return Err(StoreError::damaged(format!(
                "the log of campaign {id} does not add up"
            )));
        }
    }
    Ok(book)
}

/// Takes changes of the stock back; tells whether that is possible.
fn take_out_of_stock(setup: &mut Setup, units: i64) -> bool {
    if units == 0 {
        return true;
    }
    let Rules::Sale(sale) = &mut setup.campaign.rules else {
        return false;
    };
    let before = u64::try_from(sale.stock() as i64 - units).ok();
    let before = before.and_then(|stock| sale.with_stock(stock).ok());
    before.map(|before| *sale = before).is_some()
}

/// What is wrong with an entry, as far as the entries before it tell: a book takes over only what it could have
/// decided.
fn contradiction(book: &Book, entry: &Entry) -> Option<&'static str> {
    let Some(tally) = book.tally(entry.at, entry.campaign) else {
        return Some("its campaign was never opened");
    };
    match &entry.event {
        Event::Granted {
            number, quantity, ..
        } => {
            if *number != tally.grants + 1 {
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
        | Event::Expired { number }
        | Event::Reinstated { number, .. }
        | Event::RefundDue { number, .. }
        | Event::Returned { number } => {
            let order = OrderId {
                campaign: entry.campaign,
                number: *number,
            };
            book.order(order)
                .is_none()
                .then_some("there is no such order")
        }
        Event::TransferredOut { .. }
        | Event::TransferredIn { .. }
        | Event::TransferReturned { .. } => Some("this engine spreads nothing"),
        Event::StockChanged { units } => {
            let taken = u64::try_from(-units).unwrap_or(0);
            (taken > tally.remaining).then_some("it takes more than was left")
        }
        Event::Opened { .. } | Event::Paused | Event::Resumed | Event::Ended => None,
    }
}
