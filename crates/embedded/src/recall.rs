//! Campaigns read from the ledger's tables: for a book that does not have them, or not any more.
//!
//! The tables have everything of a campaign up to the settled position, except of one with entries in quarantine or
//! discarded: that is made from its log. The log behind the position is the book's to replay.

use std::{
    collections::{HashMap, HashSet},
    io,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use qiang_core::{
    book::{Book, FormerGrant, Restored, Standing, Unsound},
    campaign::{CampaignKind, Phase},
    event::{Entry, Event, Seq},
    id::CampaignId,
    outcome::Outcome,
    ports::{Clock, EngineError, SettledPayment, SettledRow},
    rows::{SettledRowColumns, has_fixed_shares, setup_of},
    time::Timestamp,
};
use rusqlite::{Connection, Row, params};

use crate::{
    PARTITION, Shared, archive,
    errand::Errand,
    error::StoreError,
    file,
    ledger::{campaigns, settle},
    log::{self, Refs},
    queue::Taken,
    replay,
    task::{Recalled, Task},
};

/// How long the thread keeps its connection while nobody asks.
const KEPT: Duration = Duration::from_secs(60);

/// What the ledger has of a campaign.
pub(crate) enum Loaded {
    /// It has opened.
    Opened(Box<Restored>),
    /// It has not opened as far as that is settled.
    Draft(Box<Restored>),
    /// There is no such campaign.
    Unknown,
    /// This program cannot read it, for this reason. Others are not concerned.
    Unreadable(String),
}

/// Reads a campaign as it is settled. An error says that the file cannot be read.
pub(crate) fn load(conn: &Connection, id: CampaignId) -> Result<Loaded, StoreError> {
    // All of it is read as of one commit.
    let tx = conn.unchecked_transaction()?;
    match read(&tx, id) {
        Err(error) if error.is_io() => Err(error),
        Err(error) => Ok(Loaded::Unreadable(error.chain())),
        Ok(loaded) => Ok(loaded),
    }
}

fn read(conn: &Connection, id: CampaignId) -> Result<Loaded, StoreError> {
    let upto = settle::position(conn, PARTITION)?;
    let Some(row) = campaigns::row_by_id(conn, id)? else {
        return Ok(Loaded::Unknown);
    };
    let (campaign_ref, record) = (row.campaign_ref, row.record()?);
    let skipped = skipped_numbers(conn, campaign_ref)?;
    if has_set_aside(conn, id)? {
        return from_log(conn, (id, campaign_ref), (upto, &skipped));
    }
    if record.phase == Phase::Draft {
        let setup = campaigns::setup(conn, campaign_ref, record.campaign)?;
        let restored = Restored::unopened(setup, upto).skipping(&skipped);
        return Ok(Loaded::Draft(Box::new(restored)));
    }
    let standing = Standing {
        phase: record.phase,
        granted: record.granted,
        returned: record.returned,
        refunded_minor: record.refunded_minor,
    };
    let campaign = record.campaign;
    let is_sale = campaign.kind() == CampaignKind::Sale;
    let rows = rows_of(conn, campaign_ref, is_sale)?;
    let mut shares = Vec::new();
    if has_fixed_shares(&campaign) {
        shares.extend(rows.iter().filter_map(|row| row.amount_minor));
    }
    let setup = setup_of(campaign, shares)?;
    let mut restored = Restored::opened(setup, standing, upto).skipping(&skipped);
    for row in &rows {
        add(&mut restored, row)?;
    }
    if is_sale {
        let mut payments = conn.prepare_cached(
            "SELECT number, payment, outcome FROM payments WHERE campaign = ?1 ORDER BY number",
        )?;
        let columns = |row: &Row<'_>| <(i64, String, String)>::try_from(row);
        for columns in payments.query_map([campaign_ref], columns)? {
            let payment = SettledPayment::of(columns?)?;
            let added = restored.add_payment(payment.number, &payment.payment, payment.outcome);
            added.map_err(unsound)?;
        }
    }
    let restored = restored.finish().map_err(unsound)?;
    Ok(Loaded::Opened(Box::new(restored)))
}

/// Numbers that restores have skipped: the first and the last of each run, in their order.
fn skipped_numbers(conn: &Connection, campaign_ref: i64) -> Result<Vec<(u32, u32)>, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT first_number, last_number FROM withheld_numbers WHERE partition = ?1 AND campaign = ?2 AND step = 1 \
         ORDER BY first_number",
    )?;
    let runs = statement.query_map(params![PARTITION.0, campaign_ref], |row| row.try_into())?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Has the book know the numbers that restores have skipped of campaigns that have not opened: those are opened without
/// being read.
pub(crate) fn skip_of_drafts(conn: &Connection, book: &mut Book) -> Result<(), StoreError> {
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

/// Shares, those that nobody has included, or orders.
fn rows_of(
    conn: &Connection,
    campaign_ref: i64,
    is_sale: bool,
) -> Result<Vec<SettledRow>, StoreError> {
    let sql = match is_sale {
        true => {
            "SELECT number, amount, user, granted_at, quantity, state, key FROM orders \
             WHERE campaign = ?1 ORDER BY number"
        }
        false => {
            "SELECT number, amount, user, granted_at, 1, 'held', NULL FROM shares \
             WHERE campaign = ?1 ORDER BY number"
        }
    };
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([campaign_ref], |row| SettledRowColumns::try_from(row))?;
    rows.map(|columns| Ok(SettledRow::of(columns?)?)).collect()
}

fn add(restored: &mut Restored, row: &SettledRow) -> Result<(), StoreError> {
    let (Some((user, granted_at)), Some(amount_minor)) = (&row.granted, row.amount_minor) else {
        return Ok(()); // a share that nobody has
    };
    let grant = FormerGrant {
        number: row.number,
        user,
        quantity: row.quantity,
        amount_minor,
        granted_at: *granted_at,
        key: row.key.as_ref(),
        state: row.state,
    };
    restored.add(&grant).map_err(unsound)
}

fn unsound(error: Unsound) -> StoreError {
    StoreError::damaged(error.reason)
}

/// Whether entries about a campaign were refused by the ledger, so that its rows do not have them.
pub(crate) fn has_set_aside(conn: &Connection, id: CampaignId) -> Result<bool, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM set_aside WHERE partition = ?1 AND campaign = ?2)",
    )?;
    Ok(statement.query_row(params![PARTITION.0, id.to_string()], |row| row.get(0))?)
}

/// Whether entries about any campaign were.
pub(crate) fn anything_set_aside(conn: &Connection) -> Result<bool, StoreError> {
    let mut statement =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM set_aside WHERE partition = ?1)")?;
    Ok(statement.query_row([PARTITION.0], |row| row.get(0))?)
}

/// Makes a campaign from all entries of the log about it, up to the settled position.
fn from_log(
    conn: &Connection,
    (id, campaign_ref): (CampaignId, i64),
    (upto, skipped): (Seq, &[(u32, u32)]),
) -> Result<Loaded, StoreError> {
    let entries = whole_log(conn, (id, campaign_ref), upto)?;
    let set_aside = set_aside(conn, id)?;
    let units = entries.iter().filter_map(|entry| match entry.event {
        Event::StockChanged { units } if !set_aside.contains(&entry.seq) => Some(units),
        _ => None,
    });
    let setup = replay::setup_before(conn, campaign_ref, units.sum())?;
    let mut book = Book::new();
    let unopened = |upto| Restored::unopened(setup.clone(), upto).skipping(skipped);
    book.recall(Timestamp::default(), unopened(0));
    for entry in &entries {
        if let Some(what) = replay::contradiction(&book, entry) {
            let seq = entry.seq;
            return Err(StoreError::damaged(format!(
                "entry {seq} of the log: {what}"
            )));
        }
        book.replay(entry);
    }
    Ok(match book.retire(id, upto) {
        Some(restored) => Loaded::Opened(Box::new(restored.known_upto(upto))),
        None => Loaded::Draft(Box::new(unopened(upto))),
    })
}

/// All entries about a campaign up to `upto`. Its log stays in the file while something of it is set aside; what had
/// left before is in archives.
fn whole_log(
    conn: &Connection,
    (id, campaign_ref): (CampaignId, i64),
    upto: Seq,
) -> Result<Vec<Entry>, StoreError> {
    let mut refs = Refs::default();
    refs.insert(id, campaign_ref);
    let mut entries = Vec::new();
    log::read_of(conn, &mut refs, campaign_ref, upto, |entry| {
        entries.push(entry);
    })?;
    let archived = log::archived(conn)?;
    // Entries leave in their order.
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

/// The entries about a campaign that the ledger does not have.
fn set_aside(conn: &Connection, id: CampaignId) -> Result<HashSet<Seq>, StoreError> {
    let sql = "SELECT seq FROM set_aside WHERE partition = ?1 AND campaign = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let seqs = statement.query_map(params![PARTITION.0, id.to_string()], |row| {
        row.get::<_, i64>(0).map(|seq| seq as Seq)
    })?;
    Ok(seqs.collect::<Result<_, _>>()?)
}

/// The thread that reads campaigns which the book does not have, so that nobody else waits for it.
pub(crate) struct RecallThread(parking_lot::Mutex<Option<JoinHandle<()>>>);

impl RecallThread {
    pub(crate) fn start(
        path: &Path,
        shared: &Arc<Shared>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let (path, shared, clock) = (path.to_owned(), Arc::clone(shared), Arc::clone(clock));
        let thread = std::thread::Builder::new().name("recall".to_owned());
        let thread = thread.spawn(move || run(&path, &shared, &*clock))?;
        Ok(Self(parking_lot::Mutex::new(Some(thread))))
    }

    /// Waits for its end, which follows the close of its queue.
    pub(crate) fn join(&self) {
        if let Some(thread) = self.0.lock().take() {
            drop(thread.join());
        }
    }
}

fn run(path: &Path, shared: &Shared, clock: &dyn Clock) {
    let (mut inbox, mut conn) = (Vec::new(), None);
    loop {
        match shared.recalls.take(&mut inbox, 0, KEPT) {
            Taken::Tasks => {}
            Taken::Nothing => {
                conn = None;
                continue;
            }
            Taken::Closed => return,
        }
        let mut wanted: HashMap<CampaignId, Vec<Errand>> = HashMap::new();
        for errand in inbox.drain(..) {
            wanted.entry(errand.campaign()).or_default().push(errand);
        }
        for (id, errands) in wanted {
            let loaded = panic::catch_unwind(AssertUnwindSafe(|| load_by(&mut conn, path, id)));
            let loaded = loaded.unwrap_or_else(|_| {
                let reason = format!("the program failed to read campaign {id}");
                Ok(Loaded::Unreadable(reason))
            });
            let opened = match loaded {
                Ok(Loaded::Opened(restored)) => Ok(Some(restored)),
                Ok(Loaded::Draft(_) | Loaded::Unknown) => Ok(None),
                Ok(Loaded::Unreadable(reason)) => {
                    say_unreadable(id, &reason);
                    Err(EngineError::unavailable(reason))
                }
                Err(error) => {
                    conn = None;
                    Err(EngineError::unavailable(error.chain()))
                }
            };
            deliver(shared, clock.now(), (id, opened), errands);
        }
    }
}

/// For the operator: one campaign is out of order, and only that one.
pub(crate) fn say_unreadable(id: CampaignId, reason: &str) {
    tracing::error!(campaign = %id, reason, "a campaign cannot be read: claims of it are refused");
}

fn load_by(
    conn: &mut Option<Connection>,
    path: &Path,
    id: CampaignId,
) -> Result<Loaded, StoreError> {
    let conn = match conn {
        Some(conn) => conn,
        None => conn.insert(file::open_reader(path)?),
    };
    load(conn, id)
}

/// Answers who only reads, and gives the writer what it waits for.
fn deliver(
    shared: &Shared,
    now: Timestamp,
    (id, opened): (CampaignId, Recalled),
    errands: Vec<Errand>,
) {
    let mut is_awaited = false;
    for errand in errands {
        let opened = opened.as_ref().map(Option::as_deref).map_err(Clone::clone);
        match errand {
            Errand::Fetch(_) => is_awaited = true,
            Errand::Tally(_, answer) => {
                answer.send(opened.map(|opened| Some(opened?.tally(now))));
            }
            Errand::Order(order, answer) => {
                answer.send(opened.map(|opened| opened?.order(order.number)));
            }
            Errand::Look(claim, answer) => {
                let unknown = Some(Outcome::UnknownCampaign);
                let peek = |opened: Option<&Restored>| {
                    opened.map_or(unknown, |opened| opened.peek(now, &claim))
                };
                answer.send(opened.map(peek));
            }
        }
    }
    if is_awaited && let Err((_, task)) = shared.queue.push_beyond(Task::Recalled(id, opened)) {
        task.refuse(&EngineError::Stopping);
    }
}
