//! Rebuilding the book from the file.

use qiang_core::{
    book::{Book, Grace, Setup},
    campaign::{Rules, Sale, Terms},
    event::{Entry, Event},
    id::OrderId,
    money::Money,
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
pub(crate) fn rebuild(
    conn: &Connection,
    refs: &mut Refs,
    grace: Grace,
) -> Result<Book, StoreError> {
    let mut book = Book::with_grace(grace);
    let (stock_changes, first_terms) = (log::settled_stock_changes(conn)?, log::first_terms(conn)?);
    let mut bad_stock = None;
    campaigns::each_setup(conn, campaigns::Which::Opened, |campaign_ref, mut setup| {
        refs.insert(setup.campaign.id, campaign_ref);
        // The row has stock and terms as settled, and the replay changes them from the first entry on.
        let units = stock_changes.get(&campaign_ref).copied().unwrap_or(0);
        if !take_back(&mut setup, units, first_terms.get(&campaign_ref)) {
            bad_stock.get_or_insert(setup.campaign.id);
        }
        book.restore(setup);
    })?;
    if let Some(id) = bad_stock {
        let reason = format!("the stock or the terms of {id} are not what its log makes of them");
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

/// Takes changes of stock and terms back; tells whether that is possible.
fn take_back(setup: &mut Setup, units: i64, first: Option<&Terms>) -> bool {
    if units == 0 && first.is_none() {
        return true;
    }
    let Some(now) = Terms::of(&setup.campaign) else {
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
        .map(|rules| *sale = rules.with_admission(sale.admission()))
        .is_some()
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
        Event::TermsChanged { revision, .. } if *revision != entry.seq => {
            Some("it is not the change that it says it is")
        }
        Event::TermsChanged { .. } => {
            (tally.funded_minor > 0).then_some("a packet's terms do not change")
        }
        Event::Opened { .. } | Event::Paused | Event::Resumed | Event::Ended => None,
    }
}
