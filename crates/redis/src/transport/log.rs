//! Logs of the partitions, as read by settlement.

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EngineError, EventLog, LedgerError},
};
use tokio::time::Instant;

use crate::{
    connection::{CallConnection, PartitionHandle, PartitionHealth, unavailable},
    engine::RedisEngine,
    partitions::log_gap::LogGap,
    protocol::log_record::{Record, cut_at_gap, decode, unreadable},
    transport,
};

/// Records read by one call.
const RECORDS_MAX: usize = 64;

#[async_trait]
impl EventLog for RedisEngine {
    fn partitions(&self) -> Vec<PartitionId> {
        let list = self.node.partitions.list();
        list.iter().map(|partition| partition.id).collect()
    }

    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError> {
        let known = self.node.partitions.get(partition);
        if let Some(epoch) = known.epoch() {
            return Ok(epoch);
        }
        let until = Instant::now() + self.node.partitions.options().call_timeout;
        let open = known.open_term(until).await.map_err(unavailable);
        open.map_err(|error| self.unreadable(partition, &error))?;
        Ok(known.epoch().unwrap_or_default())
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        let mut reader = self.node.runtime(partition).reader.lock().await;
        reader
            .head()
            .await
            .map_err(|error| self.unreadable(partition, &error))
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let known = self.node.partitions.get(partition);
        let mut reader = self.node.runtime(partition).reader.lock().await;
        let until = Instant::now() + self.node.partitions.options().call_timeout;
        let open = known.open_term(until).await.map_err(unavailable);
        let term = open.map_err(|error| self.unreadable(partition, &error))?;
        let mut entries = self.scan(&mut reader, partition, after, limit).await?;
        if let Some(last) = entries.last().map(|last| last.seq) {
            let durable = self.durable(&mut reader, known, &term, last).await?;
            entries.retain(|entry| entry.seq <= durable);
            known.note_awaiting(durable < last);
        } else {
            known.note_awaiting(false);
        }
        // Settlement writes what is read here, so a log that ends earlier later on has lost something. Entries that
        // were read in an old term may be lost already.
        if !known.accept(&term, entries.last().map(|last| last.seq)) {
            let reason = "the partition's primary has changed while its log was read".to_owned();
            return Err(LedgerError::Unavailable { reason });
        }
        Ok(entries)
    }

    fn note_settled(&self, partition: PartitionId, settled: Seq) {
        let known = self.node.partitions.get(partition);
        known.note_settled(settled);
    }

    fn awaits_replicas(&self, partition: PartitionId) -> bool {
        self.node.partitions.get(partition).awaits_replicas()
    }

    fn note_log_gap(&self, partition: PartitionId, first: Seq, last: Seq) {
        let epoch = self.node.partitions.get(partition).epoch();
        let gap = LogGap {
            epoch: epoch.unwrap_or_default(),
            first,
            last,
        };
        self.node.runtime(partition).log_gap.set(gap);
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        self.node.runtime(partition).unsettled_answers.release(upto);
        let mut reader = self.node.runtime(partition).reader.lock().await;
        let partitions = &self.node.partitions;
        let trim = transport::trim(partitions.keys(), partitions.options(), partition, upto);
        let trimmed = reader.query(&trim).await;
        let _: i64 = trimmed.map_err(|error| self.unreadable(partition, &error))?;
        Ok(())
    }
}

impl RedisEngine {
    /// Entries after `after`, as far as Redis has them.
    async fn scan(
        &self,
        reader: &mut CallConnection,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let key = self.node.partitions.keys().log(partition);
        let mut entries: Vec<Entry> = Vec::new();
        while entries.len() < limit {
            let from = entries.last().map_or(after, |entry| entry.seq);
            let mut command = redis::cmd("XRANGE");
            command
                .arg(&key)
                .arg(format!("{}-0", from + 1))
                .arg("+")
                .arg("COUNT")
                .arg(RECORDS_MAX);
            let records = reader.query(&command).await;
            let records: Vec<Record> =
                records.map_err(|error| self.unreadable(partition, &error))?;
            let end = records.len() < RECORDS_MAX;
            for (id, fields) in records {
                let run = decode(&id, &fields).ok_or_else(|| unreadable(partition, &id))?;
                entries.extend(run.into_iter().filter(|entry| entry.seq > from));
            }
            if end {
                break;
            }
        }
        cut_at_gap(&mut entries);
        entries.truncate(limit);
        Ok(entries)
    }

    /// Last entry that is known to be durable, given that the log reaches `seq`. If grants wait for replicas, entries
    /// that these lack may still be lost, so settlement must not use them.
    async fn durable(
        &self,
        reader: &mut CallConnection,
        known: &PartitionHandle,
        term: &str,
        seq: Seq,
    ) -> Result<Seq, LedgerError> {
        if self.node.partitions.options().replicas == 0 || seq <= known.replicated() {
            return Ok(seq);
        }
        let replicated = reader.replicated().await;
        if replicated.map_err(|error| self.unreadable(known.id, &error))? {
            known.note_replicated(term, seq);
        }
        Ok(seq.min(known.replicated()))
    }

    /// Error of a log that cannot be read.
    fn unreadable(&self, partition: PartitionId, error: &EngineError) -> LedgerError {
        match self.node.partitions.state(partition) {
            PartitionHealth::Halted {
                lost: Some(lost), ..
            } => LedgerError::LogLost {
                head: lost.start() - 1,
            },
            _ => LedgerError::unavailable(error.to_string()),
        }
    }
}
