//! The book of an opened file: replays the unsettled log and records the due times. Campaigns are reloaded on demand.

use std::collections::HashSet;

use qiang_core::{
    book::{Book, Grace},
    event::Entry,
    id::CampaignId,
    time::Timestamp,
};
use rusqlite::{Connection, Row};

use crate::{
    PARTITION, downtimes,
    error::DataFileError,
    grant_positions::{Place, place_of},
    ledger::{campaigns, settle},
    log,
    log::EventRefs,
    recall::{self, LoadedCampaign},
    replay::contradiction,
};

/// Result of a rebuild.
pub(crate) struct RebuiltBook {
    pub(crate) book: Book,
    /// Positions of unsettled grants that the ledger must confirm, in order.
    pub(crate) places: Vec<Place>,
}

/// Starts at the settled position and replays the log after it, with the campaigns of its entries.
///
/// A contradiction is damage. A campaign that this program cannot read is left out. If the grace counts from the start
/// of the process, so do downtimes. A process that handles due times while no node runs counts neither.
pub(crate) fn rebuild(
    conn: &Connection,
    refs: &mut EventRefs,
    grace: Grace,
) -> Result<RebuiltBook, DataFileError> {
    let (settled, head) = (settle::position(conn, PARTITION)?, log::head(conn)?);
    if settled > head {
        return Err(DataFileError::damaged(format!(
            "settled up to entry {settled}, and the log ends at {head}"
        )));
    }
    let mut book = Book::with_grace(grace);
    if grace.since > Timestamp::default() {
        for downtime in downtimes::all(conn)? {
            book.was_down(downtime);
        }
    }
    book.begin_at(settled);
    expect_dues(conn, &mut book)?;
    recall::skip_of_drafts(conn, &mut book)?;
    let mut tail = Tail {
        conn,
        book,
        places: Vec::new(),
        unreadable: HashSet::new(),
        failed: None,
    };
    log::read(conn, refs, settled, usize::MAX, |entry| tail.replay(&entry))?;
    match tail.failed {
        Some(error) => Err(error),
        None => Ok(RebuiltBook {
            book: tail.book,
            places: tail.places,
        }),
    }
}

/// Replay of the log after the settled position.
struct Tail<'a> {
    conn: &'a Connection,
    book: Book,
    places: Vec<Place>,
    unreadable: HashSet<CampaignId>,
    failed: Option<DataFileError>,
}

impl Tail<'_> {
    fn replay(&mut self, entry: &Entry) {
        if self.failed.is_some() {
            return;
        }
        let checked = self.bring(entry.campaign).and_then(|()| {
            if self.unreadable.contains(&entry.campaign) {
                return Ok(());
            }
            match contradiction(&self.book, entry) {
                Some(what) => Err(DataFileError::damaged(format!(
                    "entry {} of the log: {what}",
                    entry.seq
                ))),
                None => Ok(()),
            }
        });
        match checked {
            Ok(()) => {
                self.book.replay(entry);
                let known = || self.book.ack_and_owner(entry.campaign);
                self.places.extend(place_of(entry, known));
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn bring(&mut self, id: CampaignId) -> Result<(), DataFileError> {
        if self.book.has(id) || self.unreadable.contains(&id) {
            return Ok(());
        }
        match recall::load(self.conn, id, &mut || {})? {
            LoadedCampaign::Opened(restored) | LoadedCampaign::Draft(restored) => {
                self.book.recall(Timestamp::default(), *restored);
            }
            LoadedCampaign::Unknown => {}
            LoadedCampaign::Unreadable(reason) => {
                recall::say_unreadable(id, &reason);
                self.unreadable.insert(id);
            }
        }
        Ok(())
    }
}

/// Records the ends of campaigns, the oldest hold of each sale and its extended holds as due times.
fn expect_dues(conn: &Connection, book: &mut Book) -> Result<(), DataFileError> {
    let due = |row: &Row<'_>| <(String, i64, Option<i64>, i64)>::try_from(row);
    let mut windows = conn.prepare(
        "SELECT id, ends_at, NULL, 0 FROM campaigns WHERE phase NOT IN ('draft', 'closed')",
    )?;
    let mut holds = conn.prepare(
        "SELECT c.id, o.granted_at, c.hold_ms, 0 FROM \
         (SELECT campaign, min(number) AS number FROM orders WHERE state = 'held' AND extension_ms = 0 \
          GROUP BY campaign) h \
         JOIN orders o ON o.campaign = h.campaign AND o.number = h.number JOIN campaigns c ON c.ref = h.campaign",
    )?;
    let mut extended = conn.prepare(
        "SELECT c.id, o.granted_at, c.hold_ms, o.extension_ms \
         FROM orders o INDEXED BY orders_held_longer JOIN campaigns c ON c.ref = o.campaign \
         WHERE o.state = 'held' AND o.extension_ms > 0",
    )?;
    let windows = windows.query_map([], due)?;
    let holds = holds.query_map([], due)?;
    for row in windows.chain(holds).chain(extended.query_map([], due)?) {
        let (id, at, hold_ms, extension_ms) = row?;
        let (id, at) = (campaigns::campaign_id(&id)?, Timestamp::from_millis(at));
        let due = hold_ms.map_or(at, |hold_ms| {
            book.extended_expires_at(at, hold_ms, extension_ms)
        });
        book.expect(due, id);
    }
    Ok(())
}
