//! One partition's line from its queue to the worker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Channel, Consumer,
    message::Delivery,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
        QueueDeclareOptions,
    },
    types::FieldTable,
};
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    inbox::{Following, GapDetector, Inbox},
    ports::{EventLog, LedgerError, Taken, TransportStatus},
};
use tokio::sync::Notify;

use crate::{
    link::{BrokerError, Link, in_time},
    message,
    options::MESSAGE_ENTRIES_MAX,
};

/// How often one take consumes anew before it gives up.
const CONSUMES_MAX: usize = 3;
/// The longest wait for a message before the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it is counted what waits.
const COUNT_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Line {
    pub(crate) link: Arc<Link>,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) partition: PartitionId,
    /// Tells the relay that the queue was lost.
    pub(crate) again: Arc<Notify>,
    pub(crate) shown: Arc<Mutex<TransportStatus>>,
    consuming: Option<(Channel, Consumer)>,
    /// Whether it consumed before.
    consumed: bool,
    /// A channel of its own to count on, for a question about a queue that is gone closes it; and when it was counted.
    counting: (Option<Channel>, Option<Instant>),
    inbox: Inbox<u64>,
    gaps: GapDetector,
    /// To be acknowledged.
    settled: Vec<u64>,
    /// To be put with the messages that nobody can read.
    unreadable: Vec<u64>,
    /// The position, and since when nothing came that follows it.
    waiting: (Seq, Instant),
    /// RabbitMQ does not work, and is not asked before this.
    detour: Option<Instant>,
    /// Entries up to here were in the log for longer than they may take to come.
    overdue: Seq,
}

impl Line {
    pub(crate) fn new(
        link: Arc<Link>,
        log: Arc<dyn EventLog>,
        partition: PartitionId,
        again: Arc<Notify>,
        shown: Arc<Mutex<TransportStatus>>,
    ) -> Self {
        Self {
            link,
            log,
            partition,
            again,
            shown,
            consuming: None,
            consumed: false,
            counting: (None, None),
            inbox: Inbox::default(),
            gaps: GapDetector::default(),
            settled: Vec::new(),
            unreadable: Vec::new(),
            waiting: (0, Instant::now()),
            detour: None,
            overdue: 0,
        }
    }

    pub(crate) async fn take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        self.gaps.begin(after);
        if self.waiting.0 != after {
            self.waiting = (after, Instant::now());
        }
        if self.detour.is_some_and(|until| Instant::now() < until) {
            return self.take_from_log(after, limit, wait_max).await;
        }
        let taken = self.try_take(after, limit.max(1), wait_max).await;
        if taken.is_ok() {
            self.detour = None;
        }
        let taken = self.outcome(taken);
        if taken.is_err() && (self.detour.is_some() || self.is_overdue()) {
            // The ledger need not wait for RabbitMQ. That it does not work is said all the same.
            self.detour = Some(Instant::now() + self.link.options.patience);
            return self.take_from_log(after, limit, Duration::ZERO).await;
        }
        taken
    }

    async fn take_from_log(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        let run = self.log.read(self.partition, after, limit.max(1)).await?;
        match run.first() {
            None => {
                tokio::time::sleep(wait_max.min(LOOK_EVERY)).await;
                Ok(Taken::Nothing)
            }
            Some(first) if first.seq == after + 1 => {
                self.shown.lock().refilled += run.len() as u64;
                Ok(Taken::Run(run))
            }
            Some(_) if self.gaps.confirmed(after) => Err(self.gone(after)),
            Some(_) => Ok(Taken::Nothing),
        }
    }

    fn is_overdue(&self) -> bool {
        self.waiting.1.elapsed() >= self.link.options.patience
    }

    fn gone(&self, after: Seq) -> LedgerError {
        let (partition, next) = (self.partition.0, after + 1);
        let reason = format!("entry {next} of partition {partition} is gone from the log");
        LedgerError::Damaged { reason }
    }

    pub(crate) async fn done(&mut self, settled: Seq) -> Result<(), LedgerError> {
        let done = self.try_done(settled).await;
        self.outcome(done)
    }

    pub(crate) fn leave(&mut self) {
        self.stop_consuming();
        self.counting = (None, None);
        self.show();
    }

    async fn try_done(&mut self, settled: Seq) -> Result<(), LedgerError> {
        self.acknowledge(settled).await?;
        self.log.release(self.partition, settled).await
    }

    async fn try_take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        let until = Instant::now() + wait_max;
        let mut consumes = 0;
        loop {
            if self.consuming.is_none() {
                if consumes == CONSUMES_MAX {
                    return Err(BrokerError::Stopped.into());
                }
                consumes += 1;
                self.consume().await?;
            }
            self.count().await;
            self.drain(limit);
            self.acknowledge(after).await?;
            let missing = match self.inbox.following(after, limit) {
                Following::Run(entries) => {
                    self.waiting = (after, Instant::now());
                    return Ok(Taken::Run(entries));
                }
                Following::Gap(upto) => Some(upto),
                Following::Nothing => Some(self.overdue).filter(|upto| *upto > after),
            };
            if let Some(upto) = missing {
                if !self.gaps.confirmed(after) {
                    return Ok(Taken::Nothing);
                }
                self.refill(after, upto).await?;
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.receive(left.min(LOOK_EVERY)).await {
                continue;
            }
            let head = self.log.head(self.partition).await?;
            if head < after {
                return Err(LedgerError::LogLost { head });
            }
            if head == after {
                self.waiting.1 = Instant::now();
            } else if self.is_overdue() {
                self.overdue = head;
                continue;
            }
            if left.is_zero() {
                return Ok(Taken::Nothing);
            }
        }
    }

    async fn consume(&mut self) -> Result<(), BrokerError> {
        let channel = self.link.channel().await?;
        self.link.declare(&channel, self.partition).await?;
        let options = &self.link.options;
        in_time(
            "set the prefetch",
            channel.basic_qos(options.prefetch, BasicQosOptions::default()),
        )
        .await?;
        let consumer = channel.basic_consume(
            options.queue(self.partition).as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = in_time("consume", consumer).await?;
        self.consuming = Some((channel, consumer));
        self.waiting.1 = Instant::now();
        if std::mem::replace(&mut self.consumed, true) {
            self.shown.lock().reconnected += 1;
        }
        Ok(())
    }

    /// Counts what waits, now and then. Where that fails there is no number, and the rest goes on.
    async fn count(&mut self) {
        let (channel, counted) = &mut self.counting;
        if counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return;
        }
        *counted = Some(Instant::now());
        if channel.as_ref().is_none_or(|c| !c.status().connected()) {
            *channel = self.link.channel().await.ok();
        }
        let Some(channel) = channel else { return };
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self.link.options.queue(self.partition);
        let asked = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
        match in_time("count messages", asked).await {
            Ok(queue) => self.shown.lock().queued = queue.message_count().into(),
            Err(_) => self.counting.0 = None,
        }
    }

    /// What was not acknowledged goes back into the queue, and comes again.
    fn stop_consuming(&mut self) {
        self.consuming = None;
        // Another worker may have it now; a message says that it is ours again.
        self.shown.lock().ours = false;
        self.inbox.clear();
        self.settled.clear();
        self.unreadable.clear();
    }

    /// Takes in what is here already.
    fn drain(&mut self, limit: usize) {
        while self.inbox.len() < limit {
            let Some((_, consumer)) = &mut self.consuming else {
                return;
            };
            match consumer.next().now_or_never() {
                None => return,
                Some(delivery) => self.put(delivery),
            }
        }
    }

    /// Waits for a message; tells whether anything has changed.
    async fn receive(&mut self, wait_max: Duration) -> bool {
        let Some((_, consumer)) = &mut self.consuming else {
            return true;
        };
        match tokio::time::timeout(wait_max, consumer.next()).await {
            Err(_) => false,
            Ok(delivery) => {
                self.put(delivery);
                true
            }
        }
    }

    fn put(&mut self, delivery: Option<Result<Delivery, lapin::Error>>) {
        match delivery {
            Some(Ok(delivery)) => {
                let tag = delivery.delivery_tag;
                let mut shown = self.shown.lock();
                shown.ours = true;
                shown.recovered += u64::from(delivery.redelivered);
                drop(shown);
                match message::decode(self.partition, &delivery.data) {
                    Some(entries) => self.inbox.bring(tag, entries),
                    None => self.unreadable.push(tag),
                }
            }
            ended => {
                let alive = |(channel, _): &(Channel, Consumer)| channel.status().connected();
                if ended.is_none() && self.consuming.as_ref().is_some_and(alive) {
                    // The queue was taken away, and what was in it.
                    self.shown.lock().remade += 1;
                    self.again.notify_one();
                }
                self.stop_consuming();
            }
        }
    }

    /// Acknowledges what is settled, and puts aside what cannot be read. A message is forgotten here when RabbitMQ was
    /// told, and not before.
    async fn acknowledge(&mut self, settled: Seq) -> Result<(), BrokerError> {
        let done = self.inbox.settled(settled);
        self.settled.extend(done);
        let Some((channel, _)) = &self.consuming else {
            return Ok(());
        };
        while let Some(tag) = self.settled.last() {
            in_time(
                "acknowledge",
                channel.basic_ack(*tag, BasicAckOptions::default()),
            )
            .await?;
            self.settled.pop();
        }
        while let Some(tag) = self.unreadable.last() {
            let aside = BasicNackOptions {
                requeue: false,
                ..BasicNackOptions::default()
            };
            in_time("put aside", channel.basic_nack(*tag, aside)).await?;
            self.unreadable.pop();
            self.shown.lock().unreadable += 1;
            let partition = self.partition.0;
            tracing::error!(partition, "a message cannot be read");
        }
        Ok(())
    }

    /// Reads from the log what the queue has not brought: entries after `after`, of those up to `upto`.
    async fn refill(&mut self, after: Seq, upto: Seq) -> Result<(), LedgerError> {
        let (log, partition) = (&self.log, self.partition.0);
        let read = log.read(self.partition, after, MESSAGE_ENTRIES_MAX).await?;
        if read.first().is_none_or(|first| first.seq != after + 1) {
            return Err(self.gone(after));
        }
        let missing = read.iter().filter(|entry| entry.seq <= upto).count() as u64;
        tracing::info!(
            partition,
            missing,
            "the queue did not bring all entries: read from the log"
        );
        self.shown.lock().refilled += missing;
        self.inbox.fill(read);
        Ok(())
    }

    fn show(&self) {
        let mut shown = self.shown.lock();
        shown.waiting = self.inbox.len() as u64;
        shown.unacknowledged = self.inbox.unacknowledged() as u64;
        if !shown.ours {
            // Whoever has it tells.
            shown.queued = 0;
        }
    }

    fn outcome<T>(&mut self, result: Result<T, LedgerError>) -> Result<T, LedgerError> {
        if result.is_err() {
            self.stop_consuming();
        }
        self.show();
        let mut shown = self.shown.lock();
        if let Err(error) = &result {
            let reason = error.to_string();
            if shown.stuck.is_none() {
                tracing::warn!(partition = self.partition.0, reason, "nothing is carried");
            }
            shown.stuck = Some(reason);
        } else if self.detour.is_none() {
            shown.stuck = None;
        }
        result
    }
}
