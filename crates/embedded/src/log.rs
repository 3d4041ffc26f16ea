//! The partition's log as rows of `events`.

use std::{borrow::Cow, sync::LazyLock};

use hashbrown::HashMap;
use qiang_core::{
    admission::AdmissionBound,
    campaign::SaleSettings,
    event::{Entry, Event, Seq},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::ReturnPart,
    payment::{PaymentOutcome, PaymentState, ReceivedMoney},
    time::{Timestamp, Window},
};
use quick_cache::unsync::Cache;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, ToSql, params};

use crate::error::DataFileError;

const APPEND: &str =
    "INSERT INTO events (seq, at, campaign, kind, number, user, quantity, amount, note) VALUES ";
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?)";
/// How many rows one statement takes where there are as many: fewer steps into SQLite and out.
const ROWS: usize = 16;
const READ: &str = "SELECT seq, at, campaign, kind, number, user, quantity, amount, note FROM events \
                    WHERE seq > ?1 ORDER BY seq LIMIT ?2";
const READ_OF: &str = "SELECT seq, at, campaign, kind, number, user, quantity, amount, note FROM events \
                       WHERE campaign = ?1 AND seq <= ?2 ORDER BY seq";

/// The `kind` of [`Event::StockChanged`].
const STOCK_CHANGED: u8 = 11;
/// The `kind` of [`Event::TermsChanged`].
const TERMS_CHANGED: u8 = 12;
/// Kind of entries that cancel some units of an order.
const PART_CANCELLED: u8 = 18;
/// Kind of entries that extend the hold of an order.
const HOLD_EXTENDED: u8 = 19;

/// The `kind` of [`Event::ChangeMade`].
const CHANGE_MADE: u8 = 17;

/// Campaigns whose id is remembered by their row number: settlement reads many entries of each.
const IDS_MAX: usize = 65_536;

/// The short row numbers of campaign ids inside the file, in both directions.
#[derive(Debug)]
pub(crate) struct EventRefs {
    /// Row numbers of campaigns in the book.
    by_id: HashMap<CampaignId, i64>,
    /// Ids of campaigns whose entries were read lately.
    by_ref: Cache<i64, CampaignId>,
    /// The last lookup: at peak load most entries belong to one campaign.
    last: Option<(CampaignId, i64)>,
}

impl Default for EventRefs {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_ref: Cache::new(IDS_MAX),
            last: None,
        }
    }
}

impl EventRefs {
    pub(crate) fn insert(&mut self, id: CampaignId, campaign_ref: i64) {
        self.by_id.insert(id, campaign_ref);
        self.by_ref.insert(campaign_ref, id);
    }

    /// Forgets a campaign that has left the book.
    pub(crate) fn forget(&mut self, id: CampaignId) {
        if let Some(campaign_ref) = self.by_id.remove(&id) {
            self.by_ref.remove(&campaign_ref);
        }
        self.last = None;
    }

    pub(crate) fn for_campaign(
        &mut self,
        conn: &Connection,
        id: CampaignId,
    ) -> Result<i64, DataFileError> {
        if let Some((_, campaign_ref)) = self.last.filter(|last| last.0 == id) {
            return Ok(campaign_ref);
        }
        let campaign_ref = match self.by_id.get(&id) {
            Some(campaign_ref) => *campaign_ref,
            None => {
                let mut statement =
                    conn.prepare_cached("SELECT ref FROM campaigns WHERE id = ?1")?;
                let campaign_ref = statement
                    .query_row([id.to_string()], |row| row.get(0))
                    .optional()?
                    .ok_or_else(|| {
                        DataFileError::damaged(format!("campaign {id} is not in the ledger"))
                    })?;
                self.insert(id, campaign_ref);
                campaign_ref
            }
        };
        self.last = Some((id, campaign_ref));
        Ok(campaign_ref)
    }

    pub(crate) fn id(
        &mut self,
        conn: &Connection,
        campaign_ref: i64,
    ) -> Result<CampaignId, DataFileError> {
        if let Some((id, _)) = self.last.filter(|last| last.1 == campaign_ref) {
            return Ok(id);
        }
        let id = match self.by_ref.get(&campaign_ref).copied() {
            Some(id) => id,
            None => {
                let mut statement =
                    conn.prepare_cached("SELECT id FROM campaigns WHERE ref = ?1")?;
                let text: Option<String> = statement
                    .query_row([campaign_ref], |row| row.get(0))
                    .optional()?;
                let id = text.and_then(|text| text.parse().ok()).ok_or_else(|| {
                    DataFileError::damaged(format!("campaign row {campaign_ref} is missing or bad"))
                })?;
                self.insert(id, campaign_ref);
                id
            }
        };
        self.last = Some((id, campaign_ref));
        Ok(id)
    }
}

/// Appends entries, in the transaction that is open.
pub(crate) fn append(
    conn: &Connection,
    refs: &mut EventRefs,
    entries: &[Entry],
) -> Result<(), DataFileError> {
    static MANY: LazyLock<String> = LazyLock::new(|| format!("{APPEND}{}", [ROW; ROWS].join(", ")));
    static ONE: LazyLock<String> = LazyLock::new(|| format!("{APPEND}{ROW}"));
    let (many, rest) = entries.as_chunks::<ROWS>();
    if !many.is_empty() {
        let mut statement = conn.prepare_cached(&MANY)?;
        for rows in many {
            put(conn, refs, &mut statement, rows)?;
        }
    }
    let mut statement = conn.prepare_cached(&ONE)?;
    for entry in rest {
        put(conn, refs, &mut statement, std::slice::from_ref(entry))?;
    }
    Ok(())
}

/// Runs a statement that takes as many rows as there are entries.
fn put(
    conn: &Connection,
    refs: &mut EventRefs,
    statement: &mut Statement<'_>,
    entries: &[Entry],
) -> Result<(), DataFileError> {
    let mut bind = EventBinder {
        statement,
        place: 0,
    };
    for entry in entries {
        let campaign = refs.for_campaign(conn, entry.campaign)?;
        let columns = EventColumns::from_event(&entry.event);
        bind.next(entry.seq as i64)?;
        bind.next(entry.at.as_millis())?;
        bind.next(campaign)?;
        bind.next(kind_of(&entry.event))?;
        bind.next(columns.number)?;
        bind.next(columns.user)?;
        bind.next(columns.quantity)?;
        bind.next(columns.amount)?;
        bind.next(columns.note)?;
    }
    bind.statement.raw_execute()?;
    Ok(())
}

/// Binds one value after another. Each by its own type: at peak load the writer does this nine times a claim, and a
/// call through `dyn ToSql` is not inlined.
struct EventBinder<'a, 'c> {
    statement: &'a mut Statement<'c>,
    place: usize,
}

impl EventBinder<'_, '_> {
    #[inline]
    fn next(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.place += 1;
        self.statement.raw_bind_parameter(self.place, value)
    }
}

/// Columns of an event that other events may lack.
#[derive(Default)]
struct EventColumns<'a> {
    number: Option<u32>,
    user: Option<&'a str>,
    quantity: Option<i64>,
    amount: Option<i64>,
    note: Option<Cow<'a, str>>,
}

impl<'a> EventColumns<'a> {
    fn from_event(event: &'a Event) -> Self {
        let number = event.number();
        match event {
            Event::Granted {
                user,
                quantity,
                amount_minor,
                key,
                ..
            } => Self {
                number,
                user: Some(user.as_str()),
                quantity: Some(i64::from(*quantity)),
                amount: Some(*amount_minor),
                note: key.as_ref().map(|key| key.as_str().into()),
            },
            Event::Paid {
                payment, received, ..
            }
            | Event::Reinstated {
                payment, received, ..
            }
            | Event::RefundDue {
                payment, received, ..
            } => Self {
                number,
                amount: received.other().map(|money| money.minor),
                note: Some(match received.other() {
                    None => payment.as_str().into(),
                    Some(money) => format!("{payment} {}", money.currency).into(),
                }),
                ..Self::default()
            },
            Event::Returned {
                part: Some(part), ..
            }
            | Event::PartCancelled { part, .. } => Self {
                number,
                quantity: Some(part.quantity.into()),
                note: Some(part.key.as_str().into()),
                ..Self::default()
            },
            Event::HoldExtended { extension_ms, .. } => Self {
                number,
                amount: Some(*extension_ms),
                ..Self::default()
            },
            Event::Closed {
                returned,
                refunded_minor,
            } => Self {
                quantity: Some(*returned as i64),
                amount: Some(*refunded_minor),
                ..Self::default()
            },
            Event::StockChanged { units } => Self {
                amount: Some(*units),
                ..Self::default()
            },
            Event::TermsChanged { revision, terms } => Self {
                quantity: Some(terms.per_user_limit.into()),
                amount: Some(terms.unit_price_minor),
                note: Some({
                    let (from, upto) = (terms.window.starts_at(), terms.window.ends_at());
                    let (from, upto) = (from.as_millis(), upto.as_millis());
                    let percent = terms.admission.percent();
                    format!("{revision} {from} {upto} {percent}").into()
                }),
                ..Self::default()
            },
            Event::ChangeMade { id } => Self {
                note: Some(id.to_string().into()),
                ..Self::default()
            },
            // This engine has one partition, so in how many parts a campaign opens, and what moves between them, needs
            // no column.
            Event::Opened { .. }
            | Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. }
            | Event::Cancelled { .. }
            | Event::Expired { .. }
            | Event::Returned { part: None, .. }
            | Event::Paused
            | Event::Resumed
            | Event::Ended => Self {
                number,
                ..Self::default()
            },
        }
    }
}

/// Hands up to `limit` entries after `after` to `each`, in order. A gap in the sequence is damage; of what is archived
/// nothing is read.
pub(crate) fn read(
    conn: &Connection,
    refs: &mut EventRefs,
    after: Seq,
    limit: usize,
    mut each: impl FnMut(Entry),
) -> Result<(), DataFileError> {
    let archived = archived(conn)?;
    if after < archived {
        return Err(DataFileError::damaged(format!(
            "cannot read entries after {after}: entries up to {archived} are archived"
        )));
    }
    let mut statement = conn.prepare_cached(READ)?;
    let mut rows = statement.query(params![
        after as i64,
        i64::try_from(limit).unwrap_or(i64::MAX)
    ])?;
    let mut expected = after;
    while let Some(row) = rows.next()? {
        expected += 1;
        let entry = entry_of(conn, refs, row)?;
        if entry.seq != expected {
            return Err(DataFileError::damaged(format!(
                "entry {expected} is missing from the log"
            )));
        }
        each(entry);
    }
    Ok(())
}

/// Hands the entries about a campaign up to `upto` to `each`, in order, as far as they are in this file. It goes
/// through all of them.
pub(crate) fn read_of(
    conn: &Connection,
    refs: &mut EventRefs,
    campaign_ref: i64,
    upto: Seq,
    mut each: impl FnMut(Entry),
) -> Result<(), DataFileError> {
    let mut statement = conn.prepare_cached(READ_OF)?;
    let mut rows = statement.query(params![campaign_ref, upto as i64])?;
    while let Some(row) = rows.next()? {
        each(entry_of(conn, refs, row)?);
    }
    Ok(())
}

/// The last entry; 0 in a log without any.
pub(crate) fn head(conn: &Connection) -> Result<Seq, DataFileError> {
    Ok(head_in_file(conn)?.max(archived(conn)?))
}

/// The same, but for entries that have left for archives: all of them may have.
pub(crate) fn head_in_file(conn: &Connection) -> Result<Seq, DataFileError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM events";
    Ok(conn.query_row(sql, [], |row| row.get::<_, i64>(0))? as Seq)
}

/// The last archived entry; 0 if none is.
pub(crate) fn archived(conn: &Connection) -> Result<Seq, DataFileError> {
    let mut statement = conn.prepare_cached("SELECT coalesce(max(last), 0) FROM archives")?;
    Ok(statement.query_row([], |row| row.get::<_, i64>(0))? as Seq)
}

/// The terms with which a sale was created, if settled entries have changed them.
pub(crate) fn first_terms(
    conn: &Connection,
    campaign_ref: i64,
) -> Result<Option<SaleSettings>, DataFileError> {
    let mut statement = conn.prepare(
        "SELECT starts_at, ends_at, per_user_limit, unit_price, admission \
         FROM sale_terms WHERE campaign = ?1 AND revision = 0",
    )?;
    let row = statement.query_row([campaign_ref], |row| {
        let instant = |place| row.get(place).map(Timestamp::from_millis);
        let window = Window::new(instant(0)?, instant(1)?);
        Ok((window, row.get(2)?, row.get(3)?, row.get::<_, u32>(4)?))
    });
    let Some((window, per_user_limit, unit_price_minor, percent)) = row.optional()? else {
        return Ok(None);
    };
    let window = window.map_err(|_| DataFileError::damaged("a sale had a bad window"))?;
    let admission = AdmissionBound::from_percent(percent)
        .map_err(|_| DataFileError::damaged("a sale had a bad admission"))?;
    Ok(Some(SaleSettings {
        window,
        per_user_limit,
        unit_price_minor,
        admission,
    }))
}

fn kind_of(event: &Event) -> u8 {
    match event {
        Event::Opened { .. } => 0,
        Event::Granted { .. } => 1,
        Event::Paid { .. } => 2,
        Event::Cancelled { .. } => 3,
        Event::Expired { .. } => 4,
        Event::Reinstated { .. } => 5,
        Event::RefundDue { .. } => 6,
        Event::Paused => 7,
        Event::Resumed => 8,
        Event::Ended => 9,
        Event::Closed { .. } => 10,
        Event::Returned { .. } => 16,
        Event::PartCancelled { .. } => PART_CANCELLED,
        Event::HoldExtended { .. } => HOLD_EXTENDED,
        Event::StockChanged { .. } => STOCK_CHANGED,
        Event::TermsChanged { .. } => TERMS_CHANGED,
        Event::ChangeMade { .. } => CHANGE_MADE,
        Event::TransferredOut { .. }
        | Event::TransferredIn { .. }
        | Event::TransferReturned { .. } => unreachable!("a book moves nothing between partitions"),
    }
}

fn entry_of(
    conn: &Connection,
    refs: &mut EventRefs,
    row: &Row<'_>,
) -> Result<Entry, DataFileError> {
    let seq = row.get::<_, i64>(0)? as Seq;
    let bad = |what: &str| DataFileError::damaged(format!("entry {seq} of the log: bad {what}"));
    let text = |column: usize| -> Result<&str, DataFileError> {
        let value = row.get_ref(column)?;
        value.as_str().map_err(|_| bad("text"))
    };
    let number = || row.get::<_, u32>(4);
    let payment = |outcome| {
        let note = text(8)?;
        let (payment, currency) = match note.split_once(' ') {
            Some((payment, currency)) => (payment, Some(currency)),
            None => (note, None),
        };
        // The price has neither amount nor currency.
        let received = match row.get::<_, Option<i64>>(7)? {
            Some(amount) if currency.is_some() => ReceivedMoney::from_columns(amount, currency),
            None if currency.is_none() => Some(ReceivedMoney::Price),
            _ => None,
        };
        let received = received.ok_or_else(|| bad("amount or currency"))?;
        let payment = PaymentRef::new(payment).map_err(|_| bad("payment"))?;
        let state = PaymentState { outcome, received };
        Ok::<_, DataFileError>(Event::payment_recorded(number()?, payment, state))
    };
    let event = match row.get::<_, u8>(3)? {
        // This engine has one partition and spreads nothing.
        0 => Event::Opened { parts: 1 },
        1 => Event::Granted {
            number: number()?,
            user: UserId::new(text(5)?).map_err(|_| bad("user"))?,
            quantity: row.get(6)?,
            amount_minor: row.get(7)?,
            key: match row.get_ref(8)?.as_str_or_null().map_err(|_| bad("key"))? {
                Some(key) => Some(IdempotencyKey::new(key).map_err(|_| bad("key"))?),
                None => None,
            },
        },
        2 => payment(PaymentOutcome::Paid)?,
        3 => Event::Cancelled { number: number()? },
        4 => Event::Expired { number: number()? },
        5 => payment(PaymentOutcome::Reinstated)?,
        6 => payment(PaymentOutcome::RefundDue)?,
        7 => Event::Paused,
        8 => Event::Resumed,
        9 => Event::Ended,
        10 => Event::Closed {
            returned: row.get::<_, i64>(6)?.try_into().map_err(|_| bad("count"))?,
            refunded_minor: row.get(7)?,
        },
        16 => Event::Returned {
            number: number()?,
            // All that was left has neither quantity nor key.
            part: match row.get::<_, Option<u32>>(6)? {
                Some(quantity) => Some(ReturnPart {
                    quantity,
                    key: IdempotencyKey::new(text(8)?).map_err(|_| bad("key"))?,
                }),
                None => None,
            },
        },
        PART_CANCELLED => Event::PartCancelled {
            number: number()?,
            part: ReturnPart {
                quantity: row.get(6)?,
                key: IdempotencyKey::new(text(8)?).map_err(|_| bad("key"))?,
            },
        },
        HOLD_EXTENDED => Event::HoldExtended {
            number: number()?,
            extension_ms: row.get(7)?,
        },
        STOCK_CHANGED => Event::StockChanged { units: row.get(7)? },
        CHANGE_MADE => Event::ChangeMade {
            id: text(8)?.parse().map_err(|_| bad("id"))?,
        },
        TERMS_CHANGED => {
            let note: String = row.get(8)?;
            let (limit, price) = (row.get::<_, u32>(6)?, row.get::<_, i64>(7)?);
            // Revision, start and end; then the admission.
            let (first, admission) = note.rsplit_once(' ').ok_or_else(|| bad("note"))?;
            let text = format!("terms_changed {first} {limit} {price} {admission}");
            Event::from_text(&text).map_err(|_| bad("note"))?
        }
        _ => return Err(bad("kind")),
    };
    let campaign = refs.id(conn, row.get(2)?)?;
    Ok(Entry {
        seq,
        at: Timestamp::from_millis(row.get(1)?),
        campaign,
        event,
    })
}
