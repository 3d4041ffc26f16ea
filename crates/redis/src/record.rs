//! Records of a partition's log.
//!
//! A record of the stream holds the entries of one step, which share their campaign and their instant: grants of
//! packets (`g`) or sales (`o`), a user and a row in turn, or other events (`e`), one a line.

use qiang_core::{
    event::{Entry, Event, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    time::Timestamp,
};
use redis::Value;

use crate::reply;

/// A record of a log: its id and its fields.
pub(crate) type Record = (String, Vec<(String, Value)>);

/// The entries of one record.
pub(crate) fn decode(id: &str, fields: &[(String, Value)]) -> Option<Vec<Entry>> {
    let last: Seq = id.split('-').next()?.parse().ok()?;
    let text = |name: &str| {
        let (_, value) = fields.iter().find(|(field, _)| field == name)?;
        match value {
            Value::BulkString(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    };
    let campaign: CampaignId = text("c")?.parse().ok()?;
    let at = Timestamp::from_millis(text("t")?.parse().ok()?);
    let events: Vec<Event> = if let Some(body) = text("g") {
        pairs(body)
            .map(|(user, row)| share(user, row))
            .collect::<Option<_>>()?
    } else if let Some(body) = text("o") {
        pairs(body)
            .map(|(user, row)| order(user, row))
            .collect::<Option<_>>()?
    } else {
        text("e")?
            .split('\n')
            .map(|line| Event::from_text(line).ok())
            .collect::<Option<_>>()?
    };
    let first = (last + 1)
        .checked_sub(events.len() as Seq)
        .filter(|first| *first > 0)?;
    let entry = |(seq, event)| Entry {
        seq,
        at,
        campaign,
        event,
    };
    Some((first..).zip(events).map(entry).collect())
}

fn pairs(body: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = body.split('\n');
    std::iter::from_fn(move || Some((lines.next()?, lines.next()?)))
}

fn share(user: &str, row: &str) -> Option<Event> {
    let mut fields = row.split('\t');
    let (number, amount_minor) = reply::share(fields.next()?)?;
    fields.next()?;
    Some(Event::Granted {
        number,
        user: UserId::new(user).ok()?,
        quantity: 1,
        amount_minor,
        key: key(fields.next())?,
    })
}

fn order(user: &str, row: &str) -> Option<Event> {
    let mut fields = row.split('\t');
    let number = fields.next()?.parse().ok()?;
    let amount_minor = fields.next()?.parse().ok()?;
    fields.next()?;
    Some(Event::Granted {
        number,
        user: UserId::new(user).ok()?,
        quantity: fields.next()?.parse().ok()?,
        amount_minor,
        key: key(fields.next())?,
    })
}

/// None when it is no key; no key when it is empty or missing.
#[expect(clippy::option_option, reason = "the outer one is the error")]
fn key(text: Option<&str>) -> Option<Option<IdempotencyKey>> {
    match text {
        None | Some("") => Some(None),
        Some(text) => Some(Some(IdempotencyKey::new(text).ok()?)),
    }
}
