//! Making the book again from the file.

use qiang_core::book::Book;
use rusqlite::Connection;

use crate::{error::StoreError, ledger::campaigns, log, log::Refs};

/// Puts every campaign of the ledger in place, then replays the whole log.
pub(crate) fn rebuild(conn: &Connection, refs: &mut Refs) -> Result<Book, StoreError> {
    let mut book = Book::new();
    campaigns::each_setup(conn, campaigns::Which::Opened, |r, setup| {
        refs.insert(setup.campaign.id, r);
        book.restore(setup);
    })?;
    log::read(conn, refs, 0, usize::MAX, |entry| book.replay(&entry))?;
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
