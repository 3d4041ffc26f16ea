//! The partition's log as rows of `events`.

use std::collections::HashMap;

use qiang_core::{
    event::{Entry, Event, Seq},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::StoreError;

const APPEND: &str = "INSERT INTO events (seq, at, campaign, kind, number, user, quantity, amount, note) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const READ: &str = "SELECT seq, at, campaign, kind, number, user, quantity, amount, note FROM events \
                    WHERE seq > ?1 ORDER BY seq LIMIT ?2";

/// The short row numbers that stand for campaign ids inside the file, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    by_id: HashMap<CampaignId, i64>,
    by_ref: HashMap<i64, CampaignId>,
    /// A rush is mostly one campaign's: the last answer is kept at hand.
    last: Option<(CampaignId, i64)>,
}

impl Refs {
    pub(crate) fn insert(&mut self, id: CampaignId, r: i64) {
        self.by_id.insert(id, r);
        self.by_ref.insert(r, id);
    }

    pub(crate) fn of(&mut self, conn: &Connection, id: CampaignId) -> Result<i64, StoreError> {
        if let Some((_, r)) = self.last.filter(|last| last.0 == id) {
            return Ok(r);
        }
        let r = match self.by_id.get(&id) {
            Some(r) => *r,
            None => {
                let mut statement =
                    conn.prepare_cached("SELECT ref FROM campaigns WHERE id = ?1")?;
                let r = statement
                    .query_row([id.to_string()], |row| row.get(0))
                    .optional()?;
                let r = r.ok_or_else(|| {
                    StoreError::damaged(format!("campaign {id} is not in the ledger"))
                })?;
                self.insert(id, r);
                r
            }
        };
        self.last = Some((id, r));
        Ok(r)
    }

    pub(crate) fn id(&mut self, conn: &Connection, r: i64) -> Result<CampaignId, StoreError> {
        if let Some((id, _)) = self.last.filter(|last| last.1 == r) {
            return Ok(id);
        }
        let id = match self.by_ref.get(&r) {
            Some(id) => *id,
            None => {
                let mut statement =
                    conn.prepare_cached("SELECT id FROM campaigns WHERE ref = ?1")?;
                let id: Option<String> = statement.query_row([r], |row| row.get(0)).optional()?;
                let id = id.and_then(|text| text.parse().ok());
                let id = id.ok_or_else(|| {
                    StoreError::damaged(format!("campaign row {r} is missing or bad"))
                })?;
                self.insert(id, r);
                id
            }
        };
        self.last = Some((id, r));
        Ok(id)
    }
}

/// Appends entries, in the transaction that is open.
pub(crate) fn append(
    conn: &Connection,
    refs: &mut Refs,
    entries: &[Entry],
) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(APPEND)?;
    for entry in entries {
        let (seq, at) = (entry.seq as i64, entry.at.as_millis());
        let campaign = refs.of(conn, entry.campaign)?;
        let kind = kind_of(&entry.event);
        match &entry.event {
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                key,
            } => statement.execute(params![
                seq,
                at,
                campaign,
                kind,
                number,
                user.as_str(),
                quantity,
                amount_minor,
                key.as_ref().map(IdempotencyKey::as_str),
            ])?,
            Event::Paid { number, payment }
            | Event::Reinstated { number, payment }
            | Event::RefundDue { number, payment } => statement.execute(params![
                seq,
                at,
                campaign,
                kind,
                number,
                None::<&str>,
                None::<i64>,
                None::<i64>,
                payment.as_str(),
            ])?,
            Event::Cancelled { number } | Event::Expired { number } => {
                statement.execute(params![
                    seq,
                    at,
                    campaign,
                    kind,
                    number,
                    None::<&str>,
                    None::<i64>,
                    None::<i64>,
                    None::<&str>,
                ])?
            }
            Event::Closed {
                returned,
                refunded_minor,
            } => statement.execute(params![
                seq,
                at,
                campaign,
                kind,
                None::<u32>,
                None::<&str>,
                returned,
                refunded_minor,
                None::<&str>,
            ])?,
            Event::Opened { .. } | Event::Paused | Event::Resumed | Event::Ended => statement
                .execute(params![
                    seq,
                    at,
                    campaign,
                    kind,
                    None::<u32>,
                    None::<&str>,
                    None::<i64>,
                    None::<i64>,
                    None::<&str>,
                ])?,
        };
    }
    Ok(())
}

/// Hands up to `limit` entries after `after` to `each`, in order. A gap in the sequence is damage.
pub(crate) fn read(
    conn: &Connection,
    refs: &mut Refs,
    after: Seq,
    limit: usize,
    mut each: impl FnMut(Entry),
) -> Result<(), StoreError> {
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
            return Err(StoreError::damaged(format!(
                "entry {expected} is missing from the log"
            )));
        }
        each(entry);
    }
    Ok(())
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
    }
}

fn entry_of(conn: &Connection, refs: &mut Refs, row: &Row<'_>) -> Result<Entry, StoreError> {
    let seq = row.get::<_, i64>(0)? as Seq;
    let bad = |what: &str| StoreError::damaged(format!("entry {seq} of the log: bad {what}"));
    let text = |column: usize| -> Result<&str, StoreError> {
        let value = row.get_ref(column)?;
        value.as_str().map_err(|_| bad("text"))
    };
    let payment = || text(8).and_then(|text| PaymentRef::new(text).map_err(|_| bad("payment")));
    let number = || row.get::<_, u32>(4);
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
        2 => Event::Paid {
            number: number()?,
            payment: payment()?,
        },
        3 => Event::Cancelled { number: number()? },
        4 => Event::Expired { number: number()? },
        5 => Event::Reinstated {
            number: number()?,
            payment: payment()?,
        },
        6 => Event::RefundDue {
            number: number()?,
            payment: payment()?,
        },
        7 => Event::Paused,
        8 => Event::Resumed,
        9 => Event::Ended,
        10 => Event::Closed {
            returned: row.get(6)?,
            refunded_minor: row.get(7)?,
        },
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
