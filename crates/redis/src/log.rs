//! The partitions' logs, as settlement reads them.
//!
//! A record of the stream holds the entries of one step, which share their campaign and their instant: grants of
//! packets (`g`) or sales (`o`), a user and a row in turn, or other events (`e`), one a line.

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    ports::{EventLog, LedgerError},
    time::Timestamp,
};
use redis::{RedisError, Value};

use crate::{
    call_connection::CallConnection, engine::RedisEngine, partition::Partition, reply, transport,
};

/// A record of a log: its id and its fields.
pub(crate) type Record = (String, Vec<(String, Value)>);

/// Records read by one call.
const RECORDS_MAX: usize = 64;

#[async_trait]
impl EventLog for RedisEngine {
    fn partitions(&self) -> Vec<PartitionId> {
        (0..self.node.count()).map(PartitionId).collect()
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        let node = &self.node;
        let mut reader = node.readers[usize::from(partition.0)].lock().await;
        let known = node.partition(partition);
        let mut tried = 0;
        let head = loop {
            tried += 1;
            match reader.head(known).await {
                Err(error) if crate::call_connection::is_transient(&error) && tried < 20 => {
                    reader.disconnect();
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                head => break head.map_err(unavailable)?,
            }
        };
        let head = head.ok_or_else(|| {
            let reason = "Redis has lost the state of this partition".to_owned();
            known.halt(&reason);
            LedgerError::Unavailable { reason }
        })?;
        self.kept(&mut reader, known, head).await
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let node = &self.node;
        let mut reader = node.readers[usize::from(partition.0)].lock().await;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let from = entries.last().map_or(after, |entry| entry.seq);
            if entries.len() >= limit {
                break;
            }
            let mut command = redis::cmd("XRANGE");
            command
                .arg(node.context.keys.log(partition))
                .arg(format!("{}-0", from + 1))
                .arg("+")
                .arg("COUNT")
                .arg(RECORDS_MAX);
            let records: Vec<Record> = node
                .read_by(&mut reader, &command)
                .await
                .map_err(unavailable)?;
            let end = records.len() < RECORDS_MAX;
            for (id, fields) in records {
                let run = decode(&id, &fields).ok_or_else(|| LedgerError::Damaged {
                    reason: format!(
                        "record {id} of the log of partition {} cannot be read",
                        partition.0
                    ),
                })?;
                entries.extend(run.into_iter().filter(|entry| entry.seq > from));
            }
            if end {
                break;
            }
        }
        entries.truncate(limit);
        let known = node.partition(partition);
        if entries.is_empty() {
            // Nothing new, or less than there was? What was vouched for before the look counts: grants go on meanwhile.
            let min_head = known.min_head();
            let head = reader.head(known).await;
            let head = head.inspect_err(|_| reader.disconnect());
            let head = head.map_err(unavailable)?.unwrap_or(0);
            if head < min_head {
                let reason = format!(
                    "Redis has lost the entries {} to {min_head} of the log",
                    head + 1
                );
                self.halt(partition, &reason).await;
                return Err(LedgerError::LogLost { head });
            }
            return Ok(entries);
        }
        let last = entries.last().map_or(after, |entry| entry.seq);
        let kept = self.kept(&mut reader, known, last).await?;
        entries.retain(|entry| entry.seq <= kept);
        // Whoever reads it settles it: a log that ends before it has lost something from here on.
        known.observe(kept.min(last));
        Ok(entries)
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        let node = &self.node;
        let mut reader = node.readers[usize::from(partition.0)].lock().await;
        let trim = transport::trim(&node.context.keys, partition, upto);
        let trimmed: Result<i64, RedisError> = node.read_by(&mut reader, &trim).await;
        trimmed.map(drop).map_err(unavailable)
    }
}

impl RedisEngine {
    /// Up to where the log is kept for good, as far as is known, given that it reaches to `seq`. What replicas do not
    /// have yet may still be lost, where grants wait for them: nobody is to build on it.
    async fn kept(
        &self,
        reader: &mut CallConnection,
        known: &Partition,
        seq: Seq,
    ) -> Result<Seq, LedgerError> {
        if self.node.context.options.replicas == 0 || seq <= known.replicated() {
            return Ok(seq);
        }
        let replicated = reader.replicated().await;
        let replicated = replicated.inspect_err(|_| reader.disconnect());
        if replicated.map_err(unavailable)? {
            known.note_replicated(seq);
        }
        Ok(seq.min(known.replicated()))
    }
}

fn unavailable(error: RedisError) -> LedgerError {
    LedgerError::Unavailable {
        reason: format!("Redis does not answer: {error}"),
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
    let first = (last + 1).checked_sub(events.len() as Seq)?;
    let first = (first > 0).then_some(first)?;
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
