//! The partitions' logs, as settlement reads them.

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EventLog, LedgerError},
};

use crate::{
    call_connection::CallConnection,
    engine::RedisEngine,
    error::{STATE_LOST, log_unavailable},
    partition::Partition,
    record::{Record, decode, unreadable},
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

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        let mut reader = self.node.readers[usize::from(partition.0)].lock().await;
        let known = self.node.partitions.get(partition);
        let head = reader.head().await;
        let head = head.map_err(log_unavailable)?.ok_or_else(|| {
            known.halt(STATE_LOST);
            let reason = STATE_LOST.to_owned();
            LedgerError::Unavailable { reason }
        })?;
        self.durable(&mut reader, known, head).await
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let known = self.node.partitions.get(partition);
        let mut reader = self.node.readers[usize::from(partition.0)].lock().await;
        let mut entries = self.scan(&mut reader, partition, after, limit).await?;
        let Some(last) = entries.last() else {
            // Nothing new, or less than there was? What was observed before the look counts: grants go on meanwhile.
            let min_head = known.min_head();
            let head = reader.head().await;
            let head = head.map_err(log_unavailable)?.unwrap_or(0);
            if head < min_head {
                let first = head + 1;
                let reason = format!("Redis has lost the entries {first} to {min_head} of the log");
                self.halt(partition, &reason).await;
                return Err(LedgerError::LogLost { head });
            }
            return Ok(entries);
        };
        let durable = self.durable(&mut reader, known, last.seq).await?;
        entries.retain(|entry| entry.seq <= durable);
        // What is read is settled: a log that ends before it has lost something from here on.
        known.observe(durable);
        Ok(entries)
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        let mut reader = self.node.readers[usize::from(partition.0)].lock().await;
        let keys = self.node.partitions.keys();
        let trimmed = reader.query(&transport::trim(keys, partition, upto)).await;
        let _: i64 = trimmed.map_err(log_unavailable)?;
        Ok(())
    }
}

impl RedisEngine {
    /// The entries that follow `after`, as far as Redis has them.
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
            let records: Vec<Record> = records.map_err(log_unavailable)?;
            let end = records.len() < RECORDS_MAX;
            for (id, fields) in records {
                let run = decode(&id, &fields).ok_or_else(|| unreadable(partition, &id))?;
                entries.extend(run.into_iter().filter(|entry| entry.seq > from));
            }
            if end {
                break;
            }
        }
        entries.truncate(limit);
        Ok(entries)
    }

    /// Up to where the log is known to be kept for good, given that it reaches to `seq`. Where grants wait for
    /// replicas, what these do not have yet may still be lost: nobody is to build on it.
    async fn durable(
        &self,
        reader: &mut CallConnection,
        known: &Partition,
        seq: Seq,
    ) -> Result<Seq, LedgerError> {
        if self.node.partitions.options().replicas == 0 || seq <= known.replicated() {
            return Ok(seq);
        }
        let replicated = reader.replicated().await;
        if replicated.map_err(log_unavailable)? {
            known.observe_replicated(seq);
        }
        Ok(seq.min(known.replicated()))
    }
}
