//! Reads campaigns from the ledger's tables into a book that lacks them.
//!
//! The tables have all of a campaign up to the settled position, unless entries of it are quarantined or discarded.
//! Such a campaign is read from its log. The book replays the log after the position.

use std::collections::HashSet;

use qiang_core::{
    book::{Book, CampaignSnapshot, InvalidRows},
    campaign::{CampaignKind, Phase},
    event::{Entry, Event, Seq},
    id::CampaignId,
    ports::{EngineError, SettledPayment, SettledReturn, SettledRow},
    rows::{
        SettledPaymentColumns, SettledReturnColumns, SettledRowColumns, has_fixed_shares, setup_of,
    },
    time::Timestamp,
};
use rusqlite::{Connection, Row, params};

use crate::{
    PARTITION, archive,
    error::DataFileError,
    ledger::{campaigns, settle},
    log::{self, EventRefs},
    replay,
    task::RecallTask,
};

/// Rows that are read without a pause: some milliseconds. A campaign with more rows is a large one.
pub(crate) const ROWS_AT_ONCE: u64 = 4_096;

/// The number of the last order of a sale.
pub(crate) const LAST_ORDER: &str =
    "SELECT coalesce(max(number), 0) FROM orders WHERE campaign = ?1";

#[cfg(test)]
thread_local! {
    /// Rows of campaigns' grants and payments that this thread has read for the book.
    pub(crate) static ROWS_READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A campaign as the ledger has it.
pub(crate) enum LoadedCampaign {
    /// It has opened.
    Opened(Box<CampaignSnapshot>),
    /// It has not opened in the settled rows.
    Draft(Box<CampaignSnapshot>),
    /// There is no such campaign.
    Unknown,
    /// This program cannot read the campaign, for this reason. Other campaigns are not affected.
    Unreadable(String),
}

impl From<LoadedCampaign> for RecallTask {
    fn from(loaded: LoadedCampaign) -> Self {
        match loaded {
            LoadedCampaign::Opened(restored) => Self::Opened(restored),
            LoadedCampaign::Draft(_) | LoadedCampaign::Unknown => Self::NotOpen,
            LoadedCampaign::Unreadable(reason) => {
                Self::Unreadable(EngineError::unavailable(reason))
            }
        }
    }
}

/// Reads a campaign as it is settled, and calls `between` behind each [`ROWS_AT_ONCE`] rows. An error says that the
/// file cannot be read.
pub(crate) fn load(
    conn: &Connection,
    id: CampaignId,
    between: &mut dyn FnMut(),
) -> Result<LoadedCampaign, DataFileError> {
    // All of it is read as of one commit.
    let tx = conn.unchecked_transaction()?;
    match read(&tx, id, &mut BrokenCampaign::new(between)) {
        Err(error) if error.is_io() => Err(error),
        Err(error) => Ok(LoadedCampaign::Unreadable(error.chain())),
        Ok(loaded) => Ok(loaded),
    }
}

/// Breaks while rows are read.
struct BrokenCampaign<'a> {
    rows: u64,
    between: &'a mut dyn FnMut(),
}

impl<'a> BrokenCampaign<'a> {
    fn new(between: &'a mut dyn FnMut()) -> Self {
        Self { rows: 0, between }
    }

    fn row(&mut self) {
        self.rows += 1;
        #[cfg(test)]
        ROWS_READ.with(|rows| rows.set(rows.get() + 1));
        if self.rows.is_multiple_of(ROWS_AT_ONCE) {
            (self.between)();
        }
    }
}

fn read(
    conn: &Connection,
    id: CampaignId,
    breaks: &mut BrokenCampaign<'_>,
) -> Result<LoadedCampaign, DataFileError> {
    let upto = settle::position(conn, PARTITION)?;
    let Some(row) = campaigns::row_by_id(conn, id)? else {
        return Ok(LoadedCampaign::Unknown);
    };
    let (campaign_ref, record) = (row.campaign_ref, row.record()?);
    let skipped = skipped_numbers(conn, campaign_ref)?;
    if has_set_aside(conn, id)? {
        return from_log(conn, (id, campaign_ref), (upto, &skipped));
    }
    if record.phase == Phase::Draft {
        let setup = campaigns::setup(conn, campaign_ref, record.campaign)?;
        let restored = CampaignSnapshot::unopened(setup, upto).skipping(&skipped);
        return Ok(LoadedCampaign::Draft(Box::new(restored)));
    }
    let standing = record.counters();
    let campaign = record.campaign;
    let is_sale = campaign.kind() == CampaignKind::Sale;
    let mut shares = Vec::new();
    if has_fixed_shares(&campaign) {
        each_row(conn, campaign_ref, is_sale, |row| {
            breaks.row();
            shares.extend(row.amount_minor);
            Ok(())
        })?;
    }
    let setup = setup_of(campaign, shares)?;
    let mut restored = CampaignSnapshot::opened(setup, standing, upto).skipping(&skipped);
    each_row(conn, campaign_ref, is_sale, |row| {
        breaks.row();
        // Shares without a user have no grant.
        row.former_grant()
            .map_or(Ok(()), |grant| restored.add(&grant).map_err(unsound))
    })?;
    if is_sale {
        let mut payments = conn.prepare_cached(
            "SELECT number, payment, outcome, amount, currency FROM payments WHERE campaign = ?1 ORDER BY number",
        )?;
        let columns = |row: &Row<'_>| SettledPaymentColumns::try_from(row);
        for columns in payments.query_map([campaign_ref], columns)? {
            breaks.row();
            let payment = SettledPayment::from_columns(columns?)?;
            let added = restored.add_payment(payment.number, &payment.payment, payment.outcome);
            added.map_err(unsound)?;
        }
        let mut returns = conn.prepare_cached(
            "SELECT number, key, quantity, kind FROM order_returns WHERE campaign = ?1 ORDER BY number",
        )?;
        let columns = |row: &Row<'_>| SettledReturnColumns::try_from(row);
        for columns in returns.query_map([campaign_ref], columns)? {
            breaks.row();
            let settled = SettledReturn::from_columns(columns?)?;
            let added = restored.add_part(settled.number, settled.kind, &settled.part);
            added.map_err(unsound)?;
        }
    }
    let restored = restored.finish().map_err(unsound)?;
    Ok(LoadedCampaign::Opened(Box::new(restored)))
}

/// Numbers that restores have skipped: the first and the last of each run, in their order.
pub(crate) fn skipped_numbers(
    conn: &Connection,
    campaign_ref: i64,
) -> Result<Vec<(u32, u32)>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT first_number, last_number FROM withheld_numbers WHERE partition = ?1 AND campaign = ?2 AND step = 1 \
         ORDER BY first_number",
    )?;
    let runs = statement.query_map(params![PARTITION.0, campaign_ref], |row| row.try_into())?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Tells the book the skipped numbers of campaigns that have not opened, because it opens them without reading them.
pub(crate) fn skip_of_drafts(conn: &Connection, book: &mut Book) -> Result<(), DataFileError> {
    let mut statement = conn.prepare(
        "SELECT DISTINCT c.id, c.ref FROM withheld_numbers n JOIN campaigns c ON c.ref = n.campaign \
         WHERE n.partition = ?1 AND c.phase = 'draft'",
    )?;
    let drafts = statement.query_map([PARTITION.0], |row| <(String, i64)>::try_from(row))?;
    for draft in drafts {
        let (id, campaign_ref) = draft?;
        let skipped = skipped_numbers(conn, campaign_ref)?;
        book.skip_numbers(campaigns::campaign_id(&id)?, skipped);
    }
    Ok(())
}

/// Reads all shares, also unclaimed ones, or all orders.
fn each_row(
    conn: &Connection,
    campaign_ref: i64,
    is_sale: bool,
    mut each: impl FnMut(SettledRow) -> Result<(), DataFileError>,
) -> Result<(), DataFileError> {
    let sql = match is_sale {
        true => {
            "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
                 cancelled_in_parts, extension_ms FROM orders \
             WHERE campaign = ?1 ORDER BY number"
        }
        false => {
            "SELECT number, amount, user, granted_at, 1, 'held', NULL, 0, 0, 0 FROM shares \
             WHERE campaign = ?1 ORDER BY number"
        }
    };
    let mut statement = conn.prepare_cached(sql)?;
    for columns in statement.query_map([campaign_ref], |row| SettledRowColumns::try_from(row))? {
        each(SettledRow::from_columns(columns?)?)?;
    }
    Ok(())
}

/// The number of the last order of a sale; 0 if there is none.
pub(crate) fn last_order(conn: &Connection, campaign_ref: i64) -> Result<u32, DataFileError> {
    let mut statement = conn.prepare_cached(LAST_ORDER)?;
    Ok(statement.query_row([campaign_ref], |row| row.get(0))?)
}

pub(crate) fn unsound(error: InvalidRows) -> DataFileError {
    DataFileError::damaged(error.reason)
}

/// Whether entries about a campaign were refused by the ledger, so that its rows do not have them.
pub(crate) fn has_set_aside(conn: &Connection, id: CampaignId) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM set_aside WHERE partition = ?1 AND campaign = ?2)",
    )?;
    Ok(statement.query_row(params![PARTITION.0, id.to_string()], |row| row.get(0))?)
}

/// Whether entries about any campaign were.
pub(crate) fn anything_set_aside(conn: &Connection) -> Result<bool, DataFileError> {
    let mut statement =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM set_aside WHERE partition = ?1)")?;
    Ok(statement.query_row([PARTITION.0], |row| row.get(0))?)
}

/// Makes a campaign from all entries of the log about it, up to the settled position.
fn from_log(
    conn: &Connection,
    (id, campaign_ref): (CampaignId, i64),
    (upto, skipped): (Seq, &[(u32, u32)]),
) -> Result<LoadedCampaign, DataFileError> {
    let entries = whole_log(conn, (id, campaign_ref), upto)?;
    let set_aside = set_aside(conn, id)?;
    let units = entries.iter().filter_map(|entry| match entry.event {
        Event::StockChanged { units } if !set_aside.contains(&entry.seq) => Some(units),
        _ => None,
    });
    let setup = replay::setup_before(conn, campaign_ref, units.sum())?;
    let mut book = Book::new();
    let unopened = |upto| CampaignSnapshot::unopened(setup.clone(), upto).skipping(skipped);
    book.recall(Timestamp::default(), unopened(0));
    for entry in &entries {
        if let Some(what) = replay::contradiction(&book, entry) {
            let seq = entry.seq;
            return Err(DataFileError::damaged(format!(
                "entry {seq} of the log: {what}"
            )));
        }
        book.replay(entry);
    }
    Ok(match book.retire(id, upto) {
        Some(restored) => LoadedCampaign::Opened(Box::new(restored.known_upto(upto))),
        None => LoadedCampaign::Draft(Box::new(unopened(upto))),
    })
}

/// All entries about a campaign up to `upto`. Its log stays in the file while an entry of it is in quarantine; earlier
/// entries may be in archives.
fn whole_log(
    conn: &Connection,
    (id, campaign_ref): (CampaignId, i64),
    upto: Seq,
) -> Result<Vec<Entry>, DataFileError> {
    let mut refs = EventRefs::default();
    refs.insert(id, campaign_ref);
    let mut entries = Vec::new();
    log::read_of(conn, &mut refs, campaign_ref, upto, |entry| {
        entries.push(entry);
    })?;
    let archived = log::archived(conn)?;
    // Entries leave the log in order.
    let is_whole = matches!(
        entries.first().map(|entry| &entry.event),
        Some(Event::Opened { .. })
    );
    if archived == 0 || is_whole {
        return Ok(entries);
    }
    let mut whole = archive::read::entries_of(conn, id)?;
    whole.extend(entries.into_iter().filter(|entry| entry.seq > archived));
    Ok(whole)
}

/// The entries about a campaign that are in quarantine.
fn set_aside(conn: &Connection, id: CampaignId) -> Result<HashSet<Seq>, DataFileError> {
    let sql = "SELECT seq FROM set_aside WHERE partition = ?1 AND campaign = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let seqs = statement.query_map(params![PARTITION.0, id.to_string()], |row| {
        row.get::<_, i64>(0).map(|seq| seq as Seq)
    })?;
    Ok(seqs.collect::<Result<_, _>>()?)
}

/// Logs for the operator that one campaign, and only that one, is unreadable.
pub(crate) fn say_unreadable(id: CampaignId, reason: &str) {
    tracing::error!(campaign = %id, reason, "cannot read a campaign: its claims are refused");
}
