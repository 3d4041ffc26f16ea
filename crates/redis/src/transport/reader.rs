//! Reads one partition's records, while this worker has its lease.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::connection::{eval_at_maxmemory, log_unavailable};
use qiang_core::{
    event::Seq,
    ports::{Delivery, DeliveryTag, LedgerError, Received},
};
use redis::RedisError;

use super::{
    COUNT_QUEUED, RECORDS_MAX, SELECT_TRANSPORT, TransportKind, connection::PartitionConnection,
    eval_for, list, stream,
};
use crate::protocol::log_record::{Record, decode, unreadable};

/// How often a worker that waits for another one's lease asks for it.
const LEASE_POLL: Duration = Duration::from_millis(100);
/// How often what is queued is counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

const ACQUIRE_LEASE: &str = include_str!("acquire_lease.lua");
const RELEASE_LEASE: &str = include_str!("release_lease.lua");

pub(super) struct PartitionReader {
    connection: PartitionConnection,
    /// The lease is in this name, while it is ours.
    token: String,
    /// When the lease was last confirmed, while it is ours.
    leased: Option<Instant>,
    /// Whether Redis knows which transport is used.
    selected: bool,
    /// Whether everything that Redis has delivered has reached our caller. If not, it is recovered first.
    in_step: bool,
    /// What was read, and replicas do not have yet.
    held: Vec<Record>,
    /// The term in which it was read.
    term: Arc<str>,
    /// When it was last counted what is queued.
    counted: Option<Instant>,
}

impl PartitionReader {
    pub(super) fn new(connection: PartitionConnection) -> Self {
        let worker = &connection.options().worker;
        Self {
            // Not mistaken for another process of the same name.
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
    ) -> Result<Received, LedgerError> {
        let until = Instant::now() + wait_max;
        let owned = self.own_until(until).await;
        if !owned.map_err(|error| self.fail(error))? {
            return Ok(Received::NotOwner);
        }
        if limit == 0 {
            return Ok(match self.in_step {
                true => Received::Deliveries(Vec::new()),
                false => Received::Restarted(Vec::new()),
            });
        }
        let term = self
            .connection
            .term()
            .await
            .map_err(|error| self.fail(error))?;
        if self.term != term {
            // What is held, here or by our caller, may be of a history that is lost.
            self.in_step = false;
            self.term = term;
        }
        // Until this call ends well, whatever Redis delivers counts as lost.
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
            true => Received::Restarted(deliveries),
            false => Received::Deliveries(deliveries),
        })
    }

    pub(super) async fn ack(&mut self, tags: &mut Vec<DeliveryTag>) -> Result<(), LedgerError> {
        let connection = &mut self.connection;
        let acked = match (connection.options().transport_kind, tags.iter().max()) {
            (_, None) => return Ok(()),
            (TransportKind::Stream, _) => stream::ack(connection, tags).await,
            (TransportKind::List, Some(last)) => list::ack(connection, *last).await,
        };
        acked.map_err(|error| self.fail(error))?;
        tags.clear();
        Ok(())
    }

    pub(super) async fn release(&mut self) {
        if self.leased.is_some() {
            let key = self.connection.keys().lease(self.connection.partition);
            let mut command = eval_at_maxmemory(RELEASE_LEASE, &[key]);
            // Where that fails, the lease lapses.
            let _: Result<i64, _> = self.connection.query(command.arg(&self.token)).await;
        }
        self.in_step = false;
        self.show_owner(None);
    }

    /// Gets the lease, waiting for it if another worker has it.
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

    /// Gets or keeps the lease, if no other worker has it.
    async fn lease(&mut self) -> Result<bool, RedisError> {
        let lease = self.connection.options().lease;
        let age = self.leased.map(|at| at.elapsed());
        if age.is_some_and(|age| age < lease / 3) {
            return Ok(true);
        }
        // If it has lapsed, another worker may have had it meanwhile, and received what we have.
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
            tracing::warn!(
                partition,
                ?age,
                taken = !ours,
                "the lease of a partition has run out"
            );
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
            tracing::info!(partition, ours, "a partition has changed hands");
        }
        if !ours {
            // Whoever has it counts.
            shown.queued = 0;
            self.counted = None;
        }
    }

    /// Tells Redis which transport is used.
    async fn select(&mut self) -> Result<(), RedisError> {
        let connection = &mut self.connection;
        let name = connection.options().transport_kind.name();
        let (keys, partition) = (connection.keys(), connection.partition);
        let command = eval_for(name, SELECT_TRANSPORT, keys, partition);
        let _: i64 = connection.query(&command).await?;
        self.selected = true;
        Ok(())
    }

    /// Counts what is queued, now and then.
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

    /// Recovers what must be recovered; else reads what is there, about up to an entry, and waits for the first record.
    /// Returns nothing that replicas do not have.
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
            // What replicas do not have may still be lost: nobody is to build on it.
            std::mem::swap(&mut self.held, &mut records);
        }
        Ok(records)
    }

    async fn recover(&mut self) -> Result<Vec<Record>, RedisError> {
        match self.connection.options().transport_kind {
            TransportKind::Stream => stream::recover(&mut self.connection).await,
            TransportKind::List => {
                list::recover(&mut self.connection, &self.token).await?;
                Ok(Vec::new())
            }
        }
    }

    /// One read: how much came, and what of that are records.
    async fn read_once(&mut self, wait: Duration) -> Result<(usize, Vec<Record>), RedisError> {
        let connection = &mut self.connection;
        // The lease is renewed in time.
        let wait = wait.min(connection.options().lease / 3);
        match connection.options().transport_kind {
            TransportKind::Stream => {
                let records = stream::read(connection, wait).await?;
                Ok((records.len(), records))
            }
            TransportKind::List => list::read(connection, &self.token, wait).await,
        }
    }

    /// Sees to it that what is appended goes through the configured transport.
    async fn check_selection(&mut self) -> Result<(), RedisError> {
        let mut command = redis::cmd("HMGET");
        let key = self.connection.keys().partition(self.connection.partition);
        command.arg(key).arg("seq").arg("list");
        let (head, list): (Option<Seq>, Option<String>) = self.connection.query(&command).await?;
        let listed = self.connection.options().transport_kind == TransportKind::List;
        if head.is_some() && list.is_some() != listed {
            self.select().await?;
            self.connection.shown.lock().remade += 1;
        }
        Ok(())
    }

    /// The records as deliveries, up to the first that cannot be read: that one is the error when it comes first.
    fn decode(&mut self, records: Vec<Record>) -> Result<Vec<Delivery>, LedgerError> {
        let mut deliveries = Vec::with_capacity(records.len());
        for (id, fields) in &records {
            match decode(id, fields) {
                Some(entries) => deliveries.push(Delivery {
                    tag: entries.last().map_or(0, |entry| entry.seq),
                    entries,
                }),
                // What follows is recovered when this here is settled.
                None if !deliveries.is_empty() => return Ok(deliveries),
                None => return Err(unreadable(self.connection.partition, id)),
            }
        }
        self.in_step = true;
        Ok(deliveries)
    }

    /// The next call connects to where the partition is then, and asks whether it is still ours.
    fn fail(&mut self, error: RedisError) -> LedgerError {
        self.connection.disconnect();
        self.in_step = false;
        self.selected = false;
        self.show_owner(None);
        log_unavailable(error)
    }
}

/// The place of a record's last entry; past all where it cannot be read.
fn place((id, _): &Record) -> Seq {
    let last = id.split('-').next();
    last.and_then(|last| last.parse().ok()).unwrap_or(Seq::MAX)
}
