//! Reader of one partition's records, while this worker has the lease.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    event::Seq,
    ports::{Delivery, DeliveryBatch, DeliveryTag, LedgerError},
};
use redis::RedisError;

use super::{
    COUNT_QUEUED, LogTransportKind, RECORDS_MAX, SELECT_TRANSPORT, connection::PartitionConnection,
    eval_for, list, stream,
};
use crate::{
    connection::{eval_at_maxmemory, log_unavailable},
    protocol::log_record::{Record, decode, unreadable},
};

/// Interval of attempts to acquire a lease that another worker has.
const LEASE_POLL: Duration = Duration::from_millis(100);
/// Interval of counts of queued entries.
const COUNT_EVERY: Duration = Duration::from_secs(1);

const ACQUIRE_LEASE: &str = include_str!("acquire_lease.lua");
const RELEASE_LEASE: &str = include_str!("release_lease.lua");

pub(super) struct PartitionReader {
    connection: PartitionConnection,
    /// Token in the lease while it is ours.
    token: String,
    /// Last confirmation of the lease, while it is ours.
    leased: Option<Instant>,
    /// Whether the transport is selected in Redis.
    selected: bool,
    /// Whether everything that Redis has delivered has reached our caller. If not, it is recovered first.
    in_step: bool,
    /// Records that were read and that replicas lack.
    held: Vec<Record>,
    /// Term in which they were read.
    term: Arc<str>,
    /// Time of the last count of queued entries.
    counted: Option<Instant>,
}

impl PartitionReader {
    pub(super) fn new(connection: PartitionConnection) -> Self {
        let worker = &connection.options().worker;
        Self {
            // Distinct from another process with the same name.
            token: format!("{worker} {:016x}", rand::random::<u64>()),
            connection,
            leased: None,
            selected: false,
            in_step: false,
            held: Vec::new(),
            term: Arc::from(""),
            counted: None,
        }
    }

    pub(super) async fn receive(
        &mut self,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        let until = Instant::now() + wait_max;
        let owned = self.own_until(until).await;
        if !owned.map_err(|error| self.fail(error))? {
            return Ok(DeliveryBatch::NotOwner);
        }
        if limit == 0 {
            return Ok(match self.in_step {
                true => DeliveryBatch::Deliveries(Vec::new()),
                false => DeliveryBatch::Restarted(Vec::new()),
            });
        }
        let term = self
            .connection
            .term()
            .await
            .map_err(|error| self.fail(error))?;
        if self.term != term {
            // Records here or at our caller may belong to a lost history.
            self.in_step = false;
            self.term = term;
        }
        // Until this call succeeds, everything that Redis delivers counts as lost.
        let restarted = !std::mem::replace(&mut self.in_step, false);
        let last_max = settled.saturating_add(limit as u64);
        let (made, records) = match self.read(restarted, last_max, until).await {
            Err(error) if error.code() == Some("NOGROUP") => {
                let made = stream::make_group(&mut self.connection, settled).await;
                (true, made.map(|()| Vec::new()))
            }
            records => (false, records),
        };
        let records = records.map_err(|error| self.fail(error))?;
        if let Some(last) = records
            .iter()
            .map(place)
            .filter(|last| *last < Seq::MAX)
            .max()
        {
            let term = Arc::clone(&self.term);
            let confirmed = self.connection.confirm(&term, last).await;
            confirmed.map_err(|error| self.fail(error))?;
        }
        let deliveries = self.decode(records)?;
        Ok(match restarted || made {
            true => DeliveryBatch::Restarted(deliveries),
            false => DeliveryBatch::Deliveries(deliveries),
        })
    }

    pub(super) async fn ack(&mut self, tags: &mut Vec<DeliveryTag>) -> Result<(), LedgerError> {
        let connection = &mut self.connection;
        let acked = match (connection.options().transport_kind, tags.iter().max()) {
            (_, None) => return Ok(()),
            (LogTransportKind::Stream, _) => stream::ack(connection, tags).await,
            (LogTransportKind::List, Some(last)) => list::ack(connection, *last).await,
        };
        acked.map_err(|error| self.fail(error))?;
        tags.clear();
        Ok(())
    }

    pub(super) async fn release(&mut self) {
        if self.leased.is_some() {
            let key = self.connection.keys().lease(self.connection.partition);
            let mut command = eval_at_maxmemory(RELEASE_LEASE, &[key]);
            // If this fails, the lease expires.
            let _: Result<i64, _> = self.connection.query(command.arg(&self.token)).await;
        }
        self.in_step = false;
        self.show_owner(None);
    }

    /// Acquires the lease; waits if another worker has it.
    async fn own_until(&mut self, until: Instant) -> Result<bool, RedisError> {
        while !self.lease().await? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            tokio::time::sleep(left.min(LEASE_POLL)).await;
        }
        if !self.selected {
            self.select().await?;
        }
        self.count().await?;
        Ok(true)
    }

    /// Acquires or renews the lease, if no other worker has it.
    async fn lease(&mut self) -> Result<bool, RedisError> {
        let lease = self.connection.options().lease;
        let age = self.leased.map(|at| at.elapsed());
        if age.is_some_and(|age| age < lease / 3) {
            return Ok(true);
        }
        // If it has expired, another worker may have had it in between, and received our records.
        let is_in_time = age.is_some_and(|age| age < lease);
        self.in_step &= is_in_time;
        let key = self.connection.keys().lease(self.connection.partition);
        let mut command = eval_at_maxmemory(ACQUIRE_LEASE, &[key]);
        command.arg(&self.token).arg(lease.as_millis() as u64);
        let asked = Instant::now();
        let ours: bool = self.connection.query(&command).await?;
        self.in_step &= ours;
        if age.is_some() && !(is_in_time && ours) {
            let partition = self.connection.partition.0;
            tracing::warn!(partition, ?age, taken = !ours, "partition lease expired");
            self.connection.shown.lock().leases_lost += 1;
        }
        self.show_owner(ours.then_some(asked));
        Ok(ours)
    }

    fn show_owner(&mut self, leased: Option<Instant>) {
        self.leased = leased;
        let ours = leased.is_some();
        let mut shown = self.connection.shown.lock();
        if std::mem::replace(&mut shown.ours, ours) != ours {
            let partition = self.connection.partition.0;
            tracing::info!(partition, ours, "partition lease changed");
        }
        if !ours {
            // The worker that has the lease counts.
            shown.queued = 0;
            self.counted = None;
        }
    }

    /// Selects the transport in Redis.
    async fn select(&mut self) -> Result<(), RedisError> {
        let connection = &mut self.connection;
        let name = connection.options().transport_kind.name();
        let (keys, partition) = (connection.keys(), connection.partition);
        let command = eval_for(name, SELECT_TRANSPORT, keys, partition);
        let _: i64 = connection.query(&command).await?;
        self.selected = true;
        Ok(())
    }

    /// Counts queued entries, at intervals.
    async fn count(&mut self) -> Result<(), RedisError> {
        if self.counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return Ok(());
        }
        let connection = &mut self.connection;
        let name = connection.options().transport_kind.name();
        let (keys, partition) = (connection.keys(), connection.partition);
        let command = eval_for(name, COUNT_QUEUED, keys, partition);
        let queued: u64 = connection.query(&command).await?;
        self.counted = Some(Instant::now());
        connection.shown.lock().queued = queued;
        Ok(())
    }

    /// Recovers records if necessary. Otherwise reads available records, up to about an entry, and waits for the first
    /// one. Returns only records that the replicas have.
    async fn read(
        &mut self,
        recover: bool,
        last_max: Seq,
        until: Instant,
    ) -> Result<Vec<Record>, RedisError> {
        let mut records = std::mem::take(&mut self.held);
        if recover {
            records = self.recover().await?;
        }
        let mut more = records.is_empty();
        while more && records.last().is_none_or(|record| place(record) < last_max) {
            let wait = match records.is_empty() {
                true => until.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let (count, read) = self.read_once(wait).await?;
            records.extend(read);
            more = count >= RECORDS_MAX;
        }
        if records.is_empty() {
            self.check_selection().await?;
        } else if !self.connection.replicated().await? {
            // Records that replicas lack may still be lost, so the caller must not use them.
            std::mem::swap(&mut self.held, &mut records);
        }
        Ok(records)
    }

    async fn recover(&mut self) -> Result<Vec<Record>, RedisError> {
        match self.connection.options().transport_kind {
            LogTransportKind::Stream => stream::recover(&mut self.connection).await,
            LogTransportKind::List => {
                list::recover(&mut self.connection, &self.token).await?;
                Ok(Vec::new())
            }
        }
    }

    /// One read: the number of items, and the records among them.
    async fn read_once(&mut self, wait: Duration) -> Result<(usize, Vec<Record>), RedisError> {
        let connection = &mut self.connection;
        // So that the lease is renewed in time.
        let wait = wait.min(connection.options().lease / 3);
        match connection.options().transport_kind {
            LogTransportKind::Stream => {
                let records = stream::read(connection, wait).await?;
                Ok((records.len(), records))
            }
            LogTransportKind::List => list::read(connection, &self.token, wait).await,
        }
    }

    /// Ensures that appended entries go through the configured transport.
    async fn check_selection(&mut self) -> Result<(), RedisError> {
        let mut command = redis::cmd("HMGET");
        let key = self.connection.keys().partition(self.connection.partition);
        command.arg(key).arg("seq").arg("list");
        let (head, list): (Option<Seq>, Option<String>) = self.connection.query(&command).await?;
        let listed = self.connection.options().transport_kind == LogTransportKind::List;
        if head.is_some() && list.is_some() != listed {
            self.select().await?;
            self.connection.shown.lock().remade += 1;
        }
        Ok(())
    }

    /// Records as deliveries, up to the first unreadable one. If that is the first of all, it is the error.
    fn decode(&mut self, records: Vec<Record>) -> Result<Vec<Delivery>, LedgerError> {
        let mut deliveries = Vec::with_capacity(records.len());
        for (id, fields) in &records {
            match decode(id, fields) {
                Some(entries) => deliveries.push(Delivery {
                    tag: entries.last().map_or(0, |entry| entry.seq),
                    entries,
                }),
                // The rest is recovered once these are settled.
                None if !deliveries.is_empty() => return Ok(deliveries),
                None => return Err(unreadable(self.connection.partition, id)),
            }
        }
        self.in_step = true;
        Ok(deliveries)
    }

    /// Disconnects, so that the next call finds the present server and checks the lease.
    fn fail(&mut self, error: RedisError) -> LedgerError {
        self.connection.disconnect();
        self.in_step = false;
        self.selected = false;
        self.show_owner(None);
        log_unavailable(error)
    }
}

/// Position of a record's last entry; the maximum if it cannot be read.
fn place((id, _): &Record) -> Seq {
    let last = id.split('-').next();
    last.and_then(|last| last.parse().ok()).unwrap_or(Seq::MAX)
}
