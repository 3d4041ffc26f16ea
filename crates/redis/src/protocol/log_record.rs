//! Records of a partition's log.
//!
//! A record of the stream contains the entries of one step, which share their campaign and their time. They are grants
//! of packets (`g`) or sales (`o`), as alternating users and rows, or other events (`e`), one per line.

use qiang_core::{
    campaign::CampaignKind,
    event::{Entry, Event, PartitionId, Seq},
    id::CampaignId,
    ports::LedgerError,
    time::Timestamp,
};
use redis::Value;

use crate::protocol::reply::GrantLine;

/// Record of a log: its id and its fields.
pub(crate) type Record = (String, Vec<(String, Value)>);

/// Error for an unreadable record.
pub(crate) fn unreadable(partition: PartitionId, id: &str) -> LedgerError {
    let partition = partition.0;
    let reason = format!("record {id} of the log of partition {partition} cannot be read");
    LedgerError::Damaged { reason }
}

/// Drops entries after the first gap: records between two others may have been deleted.
pub(crate) fn cut_at_gap(entries: &mut Vec<Entry>) {
    let next = entries.iter().skip(1);
    let gap = entries
        .iter()
        .zip(next)
        .position(|(entry, next)| next.seq != entry.seq + 1);
    if let Some(last) = gap {
        entries.truncate(last + 1);
    }
}

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
        grants(CampaignKind::RedPacket, body)?
    } else if let Some(body) = text("o") {
        grants(CampaignKind::Sale, body)?
    } else {
        let lines = text("e")?.split('\n');
        lines
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

fn grants(kind: CampaignKind, body: &str) -> Option<Vec<Event>> {
    let mut lines = body.split('\n');
    let pairs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?)));
    pairs
        .map(|(user, row)| GrantLine::parse(kind, row)?.event(user))
        .collect()
}
