//! The engine's handle: start, the `Engine` port, stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::{PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, Ticket},
};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    batcher::PendingClaim,
    call_connection::{CallConnection, ConnectionContext},
    claims::{self, CALLS_MAX},
    directory::Directory,
    error::ConnectError,
    gate::{Gate, POLL_EVERY},
    keys::{KeySpace, PARTITIONS_MAX},
    meta::MetaCache,
    node::Node,
    options::Options,
    partition::Partition,
};

/// Claims that may wait on one node; more are turned away as overload.
pub const QUEUED_MAX: usize = 65_536;
/// How often due holds and windows are looked for.
const TICK_EVERY: Duration = Duration::from_millis(250);
/// Events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;
/// How long claims under way may take at the close.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// The engine and the log on Redis. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct RedisEngine {
    pub(crate) node: Arc<Node>,
    runtime: Handle,
    tasks: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl RedisEngine {
    /// Connects, on the current runtime. `settled` is how far the ledger has each partition: a Redis that has less
    /// has lost something, and nothing is granted there. Where the ledger has nothing, an empty Redis is set up.
    ///
    /// # Errors
    /// When Redis cannot be reached, or was set up with another number of partitions.
    pub async fn connect(
        options: Options,
        settled: &[(PartitionId, Seq)],
    ) -> Result<Self, ConnectError> {
        if !(1..=PARTITIONS_MAX).contains(&options.partitions) {
            let text = format!("partitions are 1 to {PARTITIONS_MAX}");
            return Err(ConnectError::Options(text));
        }
        let directory = Directory::new(&options)?;
        let context = Arc::new(ConnectionContext {
            keys: KeySpace::new(&options.prefix),
            node: format!("{:016x}", rand::random::<u64>()),
            directory,
            options,
        });
        let fresh = settled.iter().all(|(_, seq)| *seq == 0);
        let mut partitions = Vec::new();
        for id in (0..context.options.partitions).map(PartitionId) {
            let min_head = settled
                .iter()
                .find(|(of, _)| *of == id)
                .map_or(0, |(_, seq)| *seq);
            partitions.push(attach(&context, id, min_head, fresh).await?);
        }
        let connections = |place: &str| {
            let connection = |partition: &Partition| {
                let connection = CallConnection::new(Arc::clone(&context), partition.id, place);
                tokio::sync::Mutex::new(connection)
            };
            partitions.iter().map(connection).collect::<Vec<_>>()
        };
        let node = Arc::new(Node {
            command_connections: connections("desk"),
            readers: connections("log"),
            partitions,
            meta: MetaCache::default(),
            gate: Gate::default(),
            queued: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            ahead: AtomicI64::new(0),
            started: Instant::now(),
            turns: AtomicUsize::new(0),
            pulls: Mutex::default(),
            context,
        });
        let engine = Self {
            node: Arc::clone(&node),
            runtime: Handle::current(),
            tasks: Arc::default(),
        };
        engine.spawn_tasks();
        Ok(engine)
    }

    fn spawn_tasks(&self) {
        let mut tasks = self.tasks.lock();
        for partition in &self.node.partitions {
            for place in 0..CALLS_MAX {
                let serving = claims::serve(Arc::clone(&self.node), partition.id, place);
                tasks.push(self.runtime.spawn(serving));
            }
        }
        tasks.push(self.runtime.spawn(listen(Arc::clone(&self.node))));
        tasks.push(self.runtime.spawn(poll(Arc::clone(&self.node))));
        tasks.push(self.runtime.spawn(tick(Arc::clone(&self.node))));
    }

    /// Answers what was accepted and stops. Again does nothing.
    pub async fn close(&self) {
        self.node.stopping.store(true, Ordering::Release);
        for partition in &self.node.partitions {
            partition.batcher.close();
        }
        let tasks = std::mem::take(&mut *self.tasks.lock());
        let until = tokio::time::Instant::now() + CLOSE_MAX;
        let connections = self.node.partitions.len() * CALLS_MAX;
        for (n, mut task) in tasks.into_iter().enumerate() {
            if n >= connections || tokio::time::timeout_at(until, &mut task).await.is_err() {
                task.abort();
            }
        }
        self.abandon();
    }

    /// Stops at once, as a crash would: what is under way is neither finished nor answered.
    pub fn abort(&self) {
        self.node.stopping.store(true, Ordering::Release);
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        self.abandon();
    }

    fn abandon(&self) {
        for partition in &self.node.partitions {
            partition.batcher.close();
            let error = EngineError::Uncertain {
                reason: "the engine has stopped".to_owned(),
            };
            let lost = partition.batcher.abandon(&error);
            self.node.queued.fetch_sub(lost, Ordering::Relaxed);
        }
    }

    /// Removes everything that this installation has in Redis: the end of a demonstration or a benchmark. Closes the
    /// engine first.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn erase(&self) -> Result<(), EngineError> {
        self.close().await;
        for partition in &self.node.partitions {
            self.node.erase(partition.id).await?;
        }
        Ok(())
    }

    /// The level that the claim's campaign asks for, if this node knows the campaign.
    #[must_use]
    pub fn asks_for(&self, claim: &Claim) -> Option<AckLevel> {
        self.node.meta.get(claim.campaign).map(|meta| meta.ack)
    }

    /// A place in the log that is not before the grant of a claim that was answered: its partition and the last entry
    /// that this node has vouched for there.
    #[must_use]
    pub fn position_after(&self, claim: &Claim) -> Option<(PartitionId, Seq)> {
        let meta = self.node.meta.get(claim.campaign)?;
        let partition = self.node.of_user(&meta, &claim.user);
        Some((partition, self.node.partition(partition).min_head()))
    }

    /// Claims that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.node.queued.load(Ordering::Relaxed)
    }

    /// Why partitions grant nothing any more, if any do not.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        let halted = self.node.partitions.iter().filter_map(|partition| {
            let reason = partition.halted()?;
            Some(format!("partition {}: {reason}", partition.id.0))
        });
        halted.reduce(|all, one| format!("{all}; {one}"))
    }

    /// Stops granting on a partition, on all nodes, because of something that was found elsewhere.
    pub async fn halt(&self, partition: PartitionId, reason: &str) {
        self.node.partition(partition).halt(reason);
        let key = self.node.context.keys.partition(partition);
        let mut command = redis::cmd("HSET");
        command.arg(key).arg("halted").arg(reason);
        let told: Result<i64, _> = self.node.read(partition, &command).await;
        if let Err(error) = told {
            tracing::warn!(partition = partition.0, %error, "other nodes could not be told to stop granting");
        }
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Ticket<T> {
        if self.node.stopping.load(Ordering::Acquire) {
            return Ticket::ready(Err(EngineError::Stopping));
        }
        let (answer, ticket) = Ticket::new();
        self.runtime.spawn(async move { answer.send(work.await) });
        ticket
    }
}

/// Comes to a partition: finds its state, or makes it.
async fn attach(
    context: &Arc<ConnectionContext>,
    id: PartitionId,
    min_head: Seq,
    fresh: bool,
) -> Result<Partition, ConnectError> {
    const ATTACH: &str = include_str!("lua/attach.lua");
    let mut connection = context
        .directory
        .connect(id)
        .await
        .map_err(ConnectError::Redis)?;
    let epoch = format!("{:016x}", rand::random::<u64>());
    let mut command = redis::cmd("EVAL");
    command
        .arg(ATTACH)
        .arg(1)
        .arg(context.keys.partition(id))
        .arg(context.options.partitions)
        .arg(epoch)
        .arg(u8::from(fresh))
        .arg(min_head);
    let (status, text): (String, String) = command
        .query_async(&mut connection)
        .await
        .map_err(ConnectError::Redis)?;
    match status.as_str() {
        "ok" => Ok(Partition::new(id, text, min_head)),
        "count" => Err(ConnectError::Partitions {
            found: text.parse().unwrap_or(0),
            configured: context.options.partitions,
        }),
        _ => {
            let partition = Partition::new(id, String::new(), min_head);
            partition.halt(&text);
            Ok(partition)
        }
    }
}

impl Engine for RedisEngine {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        let node = &self.node;
        if node.queued.load(Ordering::Relaxed) >= QUEUED_MAX {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        let (answer, ticket) = Ticket::new();
        node.enqueue(PendingClaim { claim, answer });
        ticket
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        let engine = self.clone();
        self.spawn(async move { engine.run(command).await })
    }

    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        self.node.peek(claim)
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        let node = Arc::clone(&self.node);
        self.spawn(async move { node.tally(campaign).await })
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        let node = Arc::clone(&self.node);
        self.spawn(async move { node.order(order).await })
    }

    fn probe(&self) -> Ticket<()> {
        let node = Arc::clone(&self.node);
        self.spawn(async move { node.probe().await })
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        if self.node.context.options.replicas > 0 {
            &[AckLevel::Memory, AckLevel::Replica]
        } else {
            &[AckLevel::Memory]
        }
    }
}

/// Hears of changes that the gate must know of.
async fn listen(node: Arc<Node>) {
    loop {
        let heard = hear(&node).await;
        node.gate.forget_all();
        if let Err(error) = heard {
            tracing::debug!(%error, "news from Redis are interrupted");
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

async fn hear(node: &Node) -> Result<(), redis::RedisError> {
    let client = node.context.directory.client(PartitionId(0)).await?;
    let mut pubsub = client.get_async_pubsub().await?;
    pubsub.psubscribe(node.context.keys.news()).await?;
    node.gate.forget_all();
    let mut messages = pubsub.on_message();
    while let Some(message) = messages.next().await {
        let campaign: Result<String, _> = message.get_payload();
        if let Some(campaign) = campaign.ok().and_then(|id| id.parse().ok()) {
            node.gate.forget(campaign);
        }
    }
    Ok(())
}

async fn poll(node: Arc<Node>) {
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        node.poll().await;
    }
}

async fn tick(node: Arc<Node>) {
    loop {
        tokio::time::sleep(TICK_EVERY).await;
        for partition in &node.partitions {
            if partition.is_halted() {
                continue;
            }
            let ticked = node.tick_partition(partition.id, TICK_EVENTS_MAX).await;
            if let Err(error) = ticked {
                tracing::debug!(partition = partition.id.0, %error, "what is due could not be done");
            }
        }
    }
}
