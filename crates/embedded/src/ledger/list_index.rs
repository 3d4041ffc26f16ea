//! List index: rows for lists of an owner's campaigns and of an account's funds, written after the creations.
//!
//! A new campaign is far from the last campaign of its owner in owner order. An index would make each creation change
//! pages of its own, and the write-ahead log stores whole pages. Thousands of rows written in owner order share pages.
//! They are written in slices, so that no other change waits for long. They count as listed once the last slice is
//! written. Until then, lists scan the newest rows.

use std::{
    time::{Duration, Instant},
    vec,
};

use rusqlite::{Connection, Row};

use crate::error::DataFileError;

/// New rows that are listed together. Fewer rows would share fewer pages; more would slow the scan of lists. A red
/// packet is two rows: its own and its posting.
const UNLISTED_MAX: u64 = 8_192;
/// The same limit after an idle period of the writer.
const UNLISTED_IDLE: u64 = 64;
/// Time without a new row before an idle writer lists.
const IDLE_FOR: Duration = Duration::from_secs(1);
/// Campaigns, and postings, read and sorted at a time. After a failure far more may be new.
const WINDOW_MAX: i64 = 32_768;
/// Base size of a slice in rows: a few milliseconds. An eighth of the new rows is added, so that listing keeps up.
const SLICE: u64 = 1_024;
const SLICE_MAX: u64 = 8_192;
/// Pause after a failure. No grant depends on the index.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Progress of the list index.
#[derive(Debug, Default)]
pub(crate) struct UnlistedRows {
    /// Upper bound of the number of new rows; `None` if they must be counted.
    rows: Option<u64>,
    changed_at: Option<Instant>,
    window: Option<ListingWindow>,
    again_at: Option<Instant>,
}

/// New rows that are listed together, in the order in which they are written.
#[derive(Debug)]
struct ListingWindow {
    owned: vec::IntoIter<(String, String, i64)>,
    funds: vec::IntoIter<(i64, i64, i64)>,
    /// The last `ref` and the last `seq` of the window.
    upto: (i64, i64),
}

impl UnlistedRows {
    /// Records that rows may have been added.
    pub(crate) fn has_changed(&mut self) {
        self.rows = None;
        self.changed_at = Some(Instant::now());
    }

    /// Records a failure, for example a full disk. The state of the last slices is unknown.
    pub(crate) fn has_failed(&mut self) {
        self.rows = None;
        self.window = None;
        self.again_at = Some(Instant::now() + AGAIN_AFTER);
    }

    /// Whether enough rows are new to write a slice.
    pub(crate) fn is_due(&mut self, conn: &Connection, is_idle: bool) -> bool {
        if self.is_paused() {
            return false;
        }
        let is_quiet = is_idle && self.changed_at.is_none_or(|at| at.elapsed() >= IDLE_FOR);
        let rows = match self.rows.map_or_else(|| count(conn), Ok) {
            Ok(rows) => rows,
            Err(error) => return self.fail(&error),
        };
        self.rows = Some(rows);
        let enough = if is_quiet {
            UNLISTED_IDLE
        } else {
            UNLISTED_MAX
        };
        self.window.is_some() || rows >= enough
    }

    /// Writes a slice in the open transaction. Returns only errors of the disk, which end the transaction. After any
    /// other error the rows stay unlisted until a later attempt.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<(), DataFileError> {
        let rows = SLICE_MAX.min(SLICE + self.rows.unwrap_or(0) / 8);
        match self.write_slice(conn, rows as usize / 2) {
            Err(error) if error.is_io() => Err(error),
            Err(error) => {
                self.fail(&error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn write_slice(&mut self, conn: &Connection, rows: usize) -> Result<(), DataFileError> {
        let mut window = match self.window.take() {
            Some(window) => window,
            None => ListingWindow::read(conn)?,
        };
        if window.write(conn, rows)? {
            self.rows = None;
        } else {
            self.window = Some(window);
        }
        Ok(())
    }

    /// Whether listing is due soon if no other work arrives.
    pub(crate) fn waits(&self) -> bool {
        let has_work = self.window.is_some() || self.rows.is_none_or(|rows| rows >= UNLISTED_IDLE);
        has_work && !self.is_paused()
    }

    fn is_paused(&self) -> bool {
        self.again_at.is_some_and(|at| at > Instant::now())
    }

    fn fail(&mut self, error: &DataFileError) -> bool {
        let reason = error.chain();
        tracing::error!(reason, "lists have to look through what cannot be listed");
        self.has_failed();
        false
    }
}

impl ListingWindow {
    /// Reads the first new rows.
    fn read(conn: &Connection) -> Result<Self, DataFileError> {
        fn rows<T>(
            (conn, upto): (&Connection, i64),
            sql: &str,
            row: fn(&Row<'_>) -> rusqlite::Result<T>,
        ) -> Result<Vec<T>, DataFileError> {
            let mut statement = conn.prepare_cached(sql)?;
            let rows = statement.query_map([upto], row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        }
        let mut upto = conn.prepare_cached(
            "SELECT max(campaign, min(campaign + ?1, coalesce((SELECT max(ref) FROM campaigns), 0))), \
             max(posting, min(posting + ?1, coalesce((SELECT max(seq) FROM postings WHERE source = -1), 0))) \
             FROM listed",
        )?;
        let upto: (i64, i64) = upto.query_row([WINDOW_MAX], |row| row.try_into())?;
        let owned = rows(
            (conn, upto.0),
            "SELECT owner, id, ref FROM campaigns WHERE ref > (SELECT campaign FROM listed) AND ref <= ?1 \
             ORDER BY owner, id",
            |row| row.try_into(),
        )?;
        let funds = rows(
            (conn, upto.1),
            "SELECT debit, at, seq FROM postings WHERE source = -1 AND seq > (SELECT posting FROM listed) \
             AND seq <= ?1 AND kind = 'fund' ORDER BY debit, at, seq",
            |row| row.try_into(),
        )?;
        Ok(Self {
            owned: owned.into_iter(),
            funds: funds.into_iter(),
            upto,
        })
    }

    /// Writes up to `rows` campaigns and funds. Returns whether these were the last ones. Existing rows were written
    /// before a crash.
    fn write(&mut self, conn: &Connection, rows: usize) -> Result<bool, DataFileError> {
        let mut enter = conn.prepare_cached("INSERT OR IGNORE INTO owned VALUES (?1, ?2, ?3)")?;
        for row in self.owned.by_ref().take(rows) {
            enter.execute(row)?;
        }
        let mut enter = conn.prepare_cached("INSERT OR IGNORE INTO funds VALUES (?1, ?2, ?3)")?;
        for row in self.funds.by_ref().take(rows) {
            enter.execute(row)?;
        }
        let is_whole = self.owned.len() == 0 && self.funds.len() == 0;
        if is_whole {
            let mut move_on =
                conn.prepare_cached("UPDATE listed SET campaign = ?1, posting = ?2")?;
            move_on.execute(self.upto)?;
        }
        Ok(is_whole)
    }
}

/// Upper bound of the rows that lists must scan. Reserved `ref`s without a campaign count too.
fn count(conn: &Connection) -> Result<u64, DataFileError> {
    let mut count = conn.prepare_cached(
        "SELECT coalesce((SELECT max(ref) FROM campaigns), 0) - campaign \
         + coalesce((SELECT max(seq) FROM postings WHERE source = -1), 0) - posting FROM listed",
    )?;
    let rows: i64 = count.query_row([], |row| row.get(0))?;
    Ok(rows.max(0).unsigned_abs())
}

/// Enters a campaign with a reserved `ref` at once: later `ref`s may be listed already.
pub(crate) fn enter_reserved(conn: &Connection, campaign_ref: i64) -> Result<(), DataFileError> {
    let mut enter = conn.prepare_cached(
        "INSERT OR REPLACE INTO owned SELECT owner, id, ref FROM campaigns WHERE ref = ?1",
    )?;
    enter.execute([campaign_ref])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use qiang_core::{
        campaign::{CampaignKind, Details},
        id::CampaignId,
        metadata::Metadata,
        money::Money,
        ports::{CampaignQuery, Creation, PostingKind, PostingQuery, TimeRange},
        split::SplitRule,
        time::Timestamp,
    };
    use qiang_testkit::campaign::{OPENS, currency, red_packet, user};
    use rand::{
        RngExt as _, SeedableRng as _,
        seq::{IndexedRandom as _, SliceRandom as _},
    };
    use rand_chacha::ChaCha8Rng;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        fence::begin_unfenced,
        file::{self, DataFileKind},
        ledger::{accounts, campaign_insert::CampaignInsert, histories, listing, preparations},
        transaction::TransactionContext,
    };

    const SENDERS: [&str; 3] = ["ann", "bob", "eve"];

    fn ledger(folder: &TempDir) -> Connection {
        let path = folder.path().join("qiang.db");
        let conn = file::open_writer(&path, DataFileKind::Ledger, OPENS).unwrap();
        let conn = conn.unfenced();
        for (n, sender) in (1..).zip(SENDERS) {
            let (id, funds) = (uuid::Uuid::from_u128(n), Money::new(1_000_000, currency()));
            accounts::deposit(&conn, OPENS, id, (&user(sender), funds), None).unwrap();
        }
        conn
    }

    fn create(
        conn: &Connection,
        at: Timestamp,
        n: u64,
        sender: &str,
        reserved: Option<i64>,
    ) -> CampaignId {
        let setup = red_packet(10, 2, SplitRule::Equal).owner(sender).setup(n);
        let asked = Creation {
            used: None,
            setup: setup.clone(),
            details: Details::default(),
            metadata: Metadata::default(),
            audience: None,
            waiting_room: false,
            by: None,
            opens: false,
        };
        let mut entering = CampaignInsert::prepare(&TransactionContext::new(conn, at)).unwrap();
        assert!(entering.enter(&setup, &asked, reserved).unwrap());
        setup.campaign.id
    }

    /// All ids of a sender's red packets, page by page.
    fn list(conn: &Connection, sender: &str, newest_first: bool) -> Vec<CampaignId> {
        let mut query = CampaignQuery {
            kind: CampaignKind::RedPacket,
            owner: Some(user(sender)),
            product_id: None,
            newest_first,
            phase: None,
            now: OPENS,
            created: TimeRange::default(),
            archived: false,
            after: None,
            until: None,
            limit: 7,
        };
        let mut found = Vec::new();
        loop {
            let page = listing::list(conn, &query).unwrap();
            assert!(page.len() <= 7);
            let Some(last) = page.last() else {
                return found;
            };
            query.after = Some(last.campaign.id);
            found.extend(page.iter().map(|it| it.campaign.id));
        }
    }

    /// Funding time and id of a sender's red packets, page by page.
    fn funds(
        conn: &Connection,
        sender: &str,
        kind: Option<PostingKind>,
    ) -> Vec<(Timestamp, CampaignId)> {
        let mut query = PostingQuery {
            user: user(sender),
            kind,
            after: None,
            limit: 5,
        };
        let mut found = Vec::new();
        loop {
            let page = histories::postings(conn, &query).unwrap();
            let Some(last) = page.last() else {
                return found;
            };
            query.after = Some(last.place);
            let funds = page.iter().filter(|it| it.kind == PostingKind::Fund);
            found.extend(funds.map(|it| (it.place.at, it.campaign.unwrap())));
        }
    }

    /// Creates red packets of several senders, with random ids and times and some reserved `ref`s, and writes slices in
    /// between. At every moment each list has each packet exactly once and in order.
    #[test]
    fn lists_have_everything_whatever_of_it_is_listed() {
        for seed in 0..3 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let folder = TempDir::new().unwrap();
            let conn = ledger(&folder);
            let mut ids: Vec<u64> = (1..=160).collect();
            ids.shuffle(&mut rng);
            let (mut reserved, mut made) = (Vec::new(), Vec::new());
            let mut unlisted = UnlistedRows::default();
            for (n, id) in ids.into_iter().enumerate() {
                let sender = *SENDERS.choose(&mut rng).unwrap();
                let at = OPENS.plus_millis(rng.random_range(0..40));
                let place = preparations::next_ref(&conn).unwrap();
                match rng.random_range(0..16) {
                    0..3 => {
                        preparations::reserve(&conn, place).unwrap();
                        reserved.push(place);
                    }
                    3..8 => {
                        let rows = rng.random_range(1..4);
                        unlisted.write_slice(&conn, rows).unwrap();
                    }
                    8 => {
                        let tx = begin_unfenced(&conn).unwrap();
                        unlisted.write_slice(&tx, 3).unwrap();
                        tx.rollback().unwrap();
                        unlisted.has_failed();
                    }
                    9 => unlisted = UnlistedRows::default(), // a crash
                    _ => {}
                }
                let place = (rng.random_range(0..3) == 0)
                    .then(|| reserved.pop())
                    .flatten();
                made.push((sender, create(&conn, at, id, sender, place), at, n));
                if n % 16 != 0 {
                    continue;
                }
                for sender in SENDERS {
                    let own = || made.iter().filter(|it| it.0 == sender);
                    let mut by_id: Vec<_> = own().map(|it| it.1).collect();
                    by_id.sort_unstable();
                    assert_eq!(list(&conn, sender, false), by_id, "seed {seed}");
                    by_id.reverse();
                    assert_eq!(list(&conn, sender, true), by_id, "seed {seed}");
                    let mut paid: Vec<_> = own().map(|it| (it.2, it.3, it.1)).collect();
                    paid.sort_unstable_by(|one, other| other.cmp(one));
                    let paid: Vec<_> = paid.into_iter().map(|it| (it.0, it.2)).collect();
                    assert_eq!(funds(&conn, sender, None), paid, "seed {seed}");
                    assert_eq!(funds(&conn, sender, Some(PostingKind::Fund)), paid);
                    assert_eq!(funds(&conn, sender, Some(PostingKind::Deposit)), []);
                }
            }
        }
    }

    #[test]
    fn lists_are_written_once_enough_is_new() {
        let folder = TempDir::new().unwrap();
        let conn = ledger(&folder);
        let mut unlisted = UnlistedRows::default();
        // There are three deposits. A red packet has a row and a posting.
        let last = |rows: u64| rows as i64 - 4;
        create(&conn, OPENS, 1, "ann", Some(last(UNLISTED_IDLE) - 1));
        assert!(!unlisted.is_due(&conn, true));
        create(&conn, OPENS, 2, "ann", None);
        assert!(!unlisted.is_due(&conn, true), "it was not told");
        unlisted.has_changed();
        assert!(!unlisted.is_due(&conn, true), "it was a moment ago");
        unlisted.changed_at = None;
        assert!(unlisted.is_due(&conn, true) && !unlisted.is_due(&conn, false));
        create(&conn, OPENS, 3, "ann", Some(last(UNLISTED_MAX)));
        unlisted.has_changed();
        assert!(unlisted.is_due(&conn, false));
        unlisted.write_slice(&conn, 1).unwrap();
        assert!(unlisted.is_due(&conn, false), "the rest of it");
        unlisted.write(&conn).unwrap();
        unlisted.changed_at = None;
        assert!(!unlisted.is_due(&conn, true));
        unlisted.rows = None;
        assert!(!unlisted.is_due(&conn, true));
        assert_eq!(list(&conn, "ann", false).len(), 3);
    }

    /// A window is bounded, however many rows are new.
    #[test]
    fn much_is_listed_in_several_windows() {
        let folder = TempDir::new().unwrap();
        let conn = ledger(&folder);
        for (n, place) in (1..).zip([7, WINDOW_MAX, WINDOW_MAX + 1, 5 * WINDOW_MAX / 2]) {
            create(&conn, OPENS, n, "ann", Some(place));
        }
        conn.execute_batch("DELETE FROM owned").unwrap();
        let (mut unlisted, mut windows) = (UnlistedRows::default(), Vec::<i64>::new());
        while unlisted.is_due(&conn, true) {
            unlisted.write(&conn).unwrap();
            let owned = conn.query_row("SELECT count(*) FROM owned", [], |row| row.get(0));
            windows.push(owned.unwrap());
            assert_eq!(list(&conn, "ann", false).len(), 4);
        }
        assert_eq!(windows, [2, 3, 4]);
    }

    /// No grant depends on the index.
    #[test]
    fn what_cannot_be_listed_is_no_error() {
        let folder = TempDir::new().unwrap();
        let conn = ledger(&folder);
        create(&conn, OPENS, 1, "ann", Some(UNLISTED_MAX as i64));
        let mut unlisted = UnlistedRows::default();
        assert!(unlisted.is_due(&conn, false));
        conn.execute_batch("ALTER TABLE owned RENAME TO elsewhere")
            .unwrap();
        unlisted.write(&conn).unwrap();
        assert!(!unlisted.is_due(&conn, false), "not at once");
        unlisted.again_at = None;
        assert!(unlisted.is_due(&conn, false));
        conn.execute_batch("DELETE FROM listed").unwrap();
        unlisted.has_changed();
        assert!(!unlisted.is_due(&conn, false));
    }
}
