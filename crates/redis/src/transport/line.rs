//! One partition's line from the log to the worker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    inbox::{Following, GapDetector, Inbox},
    ports::{LedgerError, Taken, TransportStatus},
};
use redis::{Cmd, ErrorKind, RedisError, Value, aio::MultiplexedConnection};

use super::{RECORDS_MAX, Shared, TransportKind, arm, look, trim};
use crate::record::{Record, decode};

/// How often a worker that waits for another one's lease asks for it.
const LEASE_POLL: Duration = Duration::from_millis(100);
/// How often it is counted what waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const LEASE: &str = include_str!("lease.lua");
const LEAVE: &str = include_str!("leave.lua");

/// Why something could not be done.
pub(super) enum Failed {
    Redis(RedisError),
    Ledger(LedgerError),
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

/// Where a line is in reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// What was handed out and is not acknowledged comes first, from this cursor on: it is older than anything new.
    Recovering(String),
    /// Everything of that kind is in the inbox.
    Reading,
}

impl Stage {
    pub(super) fn from_the_start() -> Self {
        Self::Recovering("0-0".to_owned())
    }
}

pub(super) struct Line {
    pub(super) shared: Arc<Shared>,
    pub(super) partition: PartitionId,
    connection: Option<MultiplexedConnection>,
    /// Whether there was one before.
    connected: bool,
    /// Who has the lease, while it is ours.
    pub(super) token: String,
    /// When the lease was last confirmed, while it is ours.
    leased: Option<Instant>,
    pub(super) stage: Stage,
    /// What to acknowledge a record by is its id in the log, or nothing for items of a list, which go in order.
    pub(super) inbox: Inbox<String>,
    gaps: GapDetector,
    /// Whether replicas have everything that is in the inbox.
    confirmed: bool,
    /// Whether Redis was told what carries.
    armed: bool,
    /// When it was last counted what waits.
    looked: Option<Instant>,
    pub(super) shown: Arc<Mutex<TransportStatus>>,
}

impl Line {
    pub(super) fn new(
        shared: Arc<Shared>,
        partition: PartitionId,
        shown: Arc<Mutex<TransportStatus>>,
    ) -> Self {
        let worker = &shared.transport_options.worker;
        Self {
            connection: None,
            connected: false,
            // Not mistaken for another process that was given the same name.
            token: format!("{worker} {:016x}", rand::random::<u64>()),
            shared,
            partition,
            leased: None,
            stage: Stage::from_the_start(),
            inbox: Inbox::default(),
            gaps: GapDetector::default(),
            confirmed: false,
            armed: false,
            looked: None,
            shown,
        }
    }

    pub(super) async fn take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        let taken = self.try_take(after, limit.max(1), wait_max).await;
        self.outcome(taken)
    }

    pub(super) async fn done(&mut self, settled: Seq) -> Result<(), LedgerError> {
        let done = self.try_done(settled).await;
        self.outcome(done)
    }

    pub(super) async fn leave(&mut self) {
        if self.leased.take().is_some() {
            let mut command = redis::cmd("EVAL");
            let key = self.shared.keys.lease(self.partition);
            command.arg(LEAVE).arg(1).arg(key).arg(&self.token);
            // Where that fails, the lease lapses.
            let _: Result<i64, _> = self.query(&command, Duration::ZERO).await;
        }
        self.start_over();
        self.show();
    }

    async fn try_take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, Failed> {
        self.gaps.begin(after);
        let until = Instant::now() + wait_max;
        if !self.lease_until(until).await? {
            return Ok(Taken::NotOwner);
        }
        self.look().await?;
        self.acknowledge(after).await?;
        let mut beyond = None;
        let mut more = false;
        loop {
            while more && self.inbox.len() < limit {
                more = self.bring(after, Duration::ZERO).await? >= RECORDS_MAX;
                self.acknowledge(after).await?;
            }
            match self.inbox.following(after, limit) {
                Following::Run(entries) => return self.hand_out(entries).await,
                Following::Gap(upto) => {
                    if !self.gaps.confirmed(after) {
                        return Ok(Taken::Nothing);
                    }
                    self.refill(after, upto).await?;
                    continue;
                }
                Following::Nothing => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            let wait = match beyond {
                Some(_) => Duration::ZERO,
                None => left.min(self.shared.transport_options.lease / 3),
            };
            let brought = self.bring(after, wait).await?;
            if brought > 0 {
                more = brought >= RECORDS_MAX;
                self.acknowledge(after).await?;
                beyond = None;
                continue;
            }
            if self.stage != Stage::Reading {
                continue; // there is more to recover
            }
            if let Some(head) = beyond.take() {
                // It was in the log before we looked the last time, and it did not come.
                if !self.gaps.confirmed(after) {
                    return Ok(Taken::Nothing);
                }
                self.refill(after, head).await?;
                continue;
            }
            match self.head(after).await? {
                head if head > after => beyond = Some(head),
                _ if left.is_zero() => return Ok(Taken::Nothing),
                _ => {}
            }
            if !self.lease().await? {
                return Ok(Taken::NotOwner);
            }
        }
    }

    async fn hand_out(&mut self, entries: Vec<Entry>) -> Result<Taken, Failed> {
        if self.shared.options.replicas > 0 && !self.confirmed {
            // What replicas do not have yet may still be lost: nobody is to build on it.
            self.confirmed = self.replicated().await?;
            if !self.confirmed {
                return Ok(Taken::Nothing);
            }
        }
        Ok(Taken::Run(entries))
    }

    async fn try_done(&mut self, settled: Seq) -> Result<(), Failed> {
        self.acknowledge(settled).await?;
        let trim = trim(&self.shared.keys, self.partition, settled);
        let _: i64 = self.query(&trim, Duration::ZERO).await?;
        Ok(())
    }

    /// Brings records into the inbox, and tells how many. Waits for the first one. If it is broken off, everything
    /// that is not acknowledged is brought again.
    async fn bring(&mut self, after: Seq, wait: Duration) -> Result<usize, Failed> {
        match self.shared.transport_options.transport_kind {
            TransportKind::Stream => self.bring_stream(after, wait).await,
            TransportKind::List => self.bring_list(wait).await,
        }
    }

    async fn acknowledge(&mut self, settled: Seq) -> Result<(), Failed> {
        let tags = self.inbox.settled(settled);
        if tags.is_empty() {
            return Ok(());
        }
        match self.shared.transport_options.transport_kind {
            TransportKind::Stream => self.acknowledge_stream(&tags).await,
            TransportKind::List => self.acknowledge_list(settled).await,
        }
    }

    /// Takes records in. What comes after one that cannot be read is not taken in.
    pub(super) fn receive(&mut self, records: Vec<Record>) -> Result<usize, Failed> {
        let count = records.len();
        self.confirmed &= count == 0;
        for (n, (id, fields)) in records.into_iter().enumerate() {
            match decode(&id, &fields) {
                Some(entries) => self.inbox.bring(id, entries),
                None if n > 0 => {
                    self.stage = Stage::from_the_start();
                    return Ok(n);
                }
                None => return Err(self.unreadable(&id).into()),
            }
        }
        Ok(count)
    }

    fn unreadable(&self, id: &str) -> LedgerError {
        let partition = self.partition.0;
        LedgerError::Damaged {
            reason: format!("record {id} of the log of partition {partition} cannot be read"),
        }
    }

    /// Reads from the log what the transport has not brought: entries after `after`, of those up to `upto`.
    async fn refill(&mut self, after: Seq, upto: Seq) -> Result<(), Failed> {
        let mut command = redis::cmd("XRANGE");
        command
            .arg(self.shared.keys.log(self.partition))
            .arg(format!("{}-0", after + 1))
            .arg("+")
            .arg("COUNT")
            .arg(RECORDS_MAX);
        let records: Vec<Record> = self.query(&command, Duration::ZERO).await?;
        let mut entries = Vec::new();
        for (id, fields) in records {
            match decode(&id, &fields) {
                Some(run) => entries.extend(run.into_iter().filter(|entry| entry.seq > after)),
                None if entries.is_empty() => return Err(self.unreadable(&id).into()),
                None => break,
            }
        }
        if entries.first().is_none_or(|first| first.seq != after + 1) {
            let (partition, next) = (self.partition.0, after + 1);
            let reason = format!("entry {next} of partition {partition} is gone from the log");
            return Err(LedgerError::Damaged { reason }.into());
        }
        let missing = entries.iter().filter(|entry| entry.seq <= upto).count() as u64;
        tracing::info!(
            partition = self.partition.0,
            missing,
            "the transport did not bring all entries: read from the log"
        );
        self.shown.lock().refilled += missing;
        self.confirmed = false;
        self.inbox.fill(entries);
        Ok(())
    }

    /// Where the log ends. Sees to it as well that what is appended goes the configured way.
    async fn head(&mut self, after: Seq) -> Result<Seq, Failed> {
        let mut command = redis::cmd("HMGET");
        let key = self.shared.keys.partition(self.partition);
        command.arg(key).arg("seq").arg("list");
        let (head, list): (Option<Seq>, Option<String>) =
            self.query(&command, Duration::ZERO).await?;
        match head {
            Some(head) if head < after => Err(LedgerError::LogLost { head }.into()),
            None if after > 0 => {
                let reason = "Redis has lost the state of this partition".to_owned();
                Err(LedgerError::Unavailable { reason }.into())
            }
            None => Ok(0),
            Some(head) => {
                let listed = self.shared.transport_options.transport_kind == TransportKind::List;
                if list.is_some() != listed {
                    self.arm().await?;
                    self.shown.lock().remade += 1;
                }
                Ok(head)
            }
        }
    }

    /// Counts what waits, now and then.
    async fn look(&mut self) -> Result<(), Failed> {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        let command = look(
            &self.shared.keys,
            self.partition,
            self.shared.transport_options.transport_kind,
        );
        let queued: u64 = self.query(&command, Duration::ZERO).await?;
        self.looked = Some(Instant::now());
        self.shown.lock().queued = queued;
        Ok(())
    }

    async fn arm(&mut self) -> Result<(), Failed> {
        let transport_kind = self.shared.transport_options.transport_kind.name();
        let command = arm(&self.shared.keys, self.partition, transport_kind);
        let _: i64 = self.query(&command, Duration::ZERO).await?;
        self.armed = true;
        Ok(())
    }

    /// Gets the lease, waiting for it if another worker has it.
    async fn lease_until(&mut self, until: Instant) -> Result<bool, Failed> {
        while !self.lease().await? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            tokio::time::sleep(left.min(LEASE_POLL)).await;
        }
        if !self.armed {
            self.arm().await?;
        }
        Ok(true)
    }

    /// Gets or keeps the lease, if no other worker has it.
    async fn lease(&mut self) -> Result<bool, Failed> {
        let lease = self.shared.transport_options.lease;
        if self.leased.is_some_and(|at| at.elapsed() < lease / 3) {
            return Ok(true);
        }
        let was_ours = self.leased.is_some_and(|at| at.elapsed() < lease);
        if !was_ours {
            // Somebody else may have had it meanwhile, and brought what we have.
            self.start_over();
        }
        let mut command = redis::cmd("EVAL");
        command
            .arg(LEASE)
            .arg(1)
            .arg(self.shared.keys.lease(self.partition))
            .arg(&self.token)
            .arg(lease.as_millis() as u64);
        let asked = Instant::now();
        let ours: bool = self.query(&command, Duration::ZERO).await?;
        self.leased = ours.then_some(asked);
        if std::mem::replace(&mut self.shown.lock().ours, ours) != ours {
            let partition = self.partition.0;
            tracing::info!(partition, ours, "a partition has changed hands");
        }
        Ok(ours)
    }

    /// Forgets what was brought: it is brought again, to whoever has the partition then.
    pub(super) fn start_over(&mut self) {
        self.inbox.clear();
        self.stage = Stage::from_the_start();
        self.confirmed = false;
    }

    async fn replicated(&mut self) -> Result<bool, Failed> {
        let options = &self.shared.options;
        let (replicas, timeout) = (options.replicas, options.replica_timeout);
        let mark = self.shared.keys.mark(self.partition, "transport");
        // WAIT is about what its own connection wrote.
        let mut write = redis::cmd("SET");
        write.arg(mark).arg("1").arg("PX").arg(60_000);
        let _: Value = self.query(&write, Duration::ZERO).await?;
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(timeout.as_millis() as u64);
        let have: u32 = self.query(&wait, timeout).await?;
        Ok(have >= replicas)
    }

    /// Sends a command that may take `wait` longer than others.
    pub(super) async fn query<T: redis::FromRedisValue>(
        &mut self,
        command: &Cmd,
        wait: Duration,
    ) -> Result<T, RedisError> {
        if self.connection.is_none() {
            let connected = self.shared.directory.connect(self.partition).await;
            self.connection = Some(connected.inspect_err(|_| self.shared.directory.forget())?);
            if std::mem::replace(&mut self.connected, true) {
                self.shown.lock().reconnected += 1;
            }
        }
        let Some(connection) = &mut self.connection else {
            return Err(RedisError::from((ErrorKind::Client, "no connection")));
        };
        connection.set_response_timeout(wait + self.shared.options.call_timeout);
        command.query_async(connection).await
    }

    fn show(&mut self) {
        let mut shown = self.shown.lock();
        shown.ours = self.leased.is_some();
        shown.waiting = self.inbox.len() as u64;
        shown.unacknowledged = self.inbox.unacknowledged() as u64;
        if !shown.ours {
            // Whoever has it tells.
            shown.queued = 0;
            self.looked = None;
        }
    }

    /// What a call came to, and what follows from it for the next one.
    fn outcome<T>(&mut self, result: Result<T, Failed>) -> Result<T, LedgerError> {
        let result = result.map_err(|failed| {
            self.start_over();
            match failed {
                Failed::Ledger(error) => error,
                Failed::Redis(error) => {
                    // The next one goes to where the partition is then, and asks whether it is still ours.
                    self.connection = None;
                    self.shared.directory.forget();
                    self.leased = None;
                    self.armed = false;
                    LedgerError::Unavailable {
                        reason: format!("Redis does not answer: {error}"),
                    }
                }
            }
        });
        self.show();
        let mut shown = self.shown.lock();
        match (&result, &shown.stuck) {
            (Ok(_), _) => shown.stuck = None,
            (Err(error), stuck) => {
                let reason = error.to_string();
                if stuck.is_none() {
                    tracing::warn!(partition = self.partition.0, reason, "nothing is carried");
                }
                shown.stuck = Some(reason);
            }
        }
        result
    }
}
