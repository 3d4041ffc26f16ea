//! The engine's handle: start, the `Engine` port, stop.

use std::{sync::Arc, time::Duration};

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
    claims::{self, CALLS_MAX},
    context::ConnectionContext,
    directory::Directory,
    error::ConnectError,
    keys::{KeySpace, PARTITIONS_MAX},
    node::Node,
    options::Options,
    partitions::Partitions,
    tasks,
};

/// Claims that may wait on one node; more are turned away as overload.
pub const QUEUED_MAX: usize = 65_536;
/// How long claims under way may take at the close.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// The engine and the log on Redis. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct RedisEngine {
    pub(crate) node: Arc<Node>,
    runtime: Handle,
    tasks: Arc<Mutex<Tasks>>,
}

#[derive(Default)]
struct Tasks {
    /// They decide claims, and end when what waits is decided.
    deciding: Vec<JoinHandle<()>>,
    /// They run until they are aborted.
    background: Vec<JoinHandle<()>>,
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
        let context = ConnectionContext {
            keys: KeySpace::new(&options.prefix),
            node: format!("{:016x}", rand::random::<u64>()),
            directory: Directory::new(&options)?,
            options,
        };
        let partitions = Partitions::attach(context, settled).await?;
        let engine = Self {
            node: Arc::new(Node::new(partitions)),
            runtime: Handle::current(),
            tasks: Arc::default(),
        };
        engine.spawn_tasks();
        Ok(engine)
    }

    fn spawn_tasks(&self) {
        let node = || Arc::clone(&self.node);
        let mut tasks = self.tasks.lock();
        for partition in self.node.partitions.list() {
            for place in 0..CALLS_MAX {
                let serving = claims::serve(node(), partition.id, place);
                tasks.deciding.push(self.runtime.spawn(serving));
            }
        }
        tasks.background = vec![
            self.runtime.spawn(tasks::listen(node())),
            self.runtime.spawn(tasks::poll(node())),
            self.runtime.spawn(tasks::tick(node())),
        ];
    }

    /// Answers what was accepted and stops. Again does nothing.
    pub async fn close(&self) {
        self.node.close();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        let until = tokio::time::Instant::now() + CLOSE_MAX;
        for mut task in tasks.deciding {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                task.abort();
            }
        }
        for task in tasks.background {
            task.abort();
        }
        self.node.abandon();
    }

    /// Stops at once, as a crash would: what is under way is neither finished nor answered.
    pub fn abort(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks.deciding.into_iter().chain(tasks.background) {
            task.abort();
        }
        self.node.close();
        self.node.abandon();
    }

    /// Removes everything that this installation has in Redis: the end of a demonstration or a benchmark. Closes the
    /// engine first.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn erase(&self) -> Result<(), EngineError> {
        self.close().await;
        for partition in self.node.partitions.list() {
            self.node.partitions.erase(partition.id).await?;
        }
        Ok(())
    }

    /// The level that the claim's campaign asks for, if this node knows the campaign.
    #[must_use]
    pub fn asks_for(&self, claim: &Claim) -> Option<AckLevel> {
        let meta = self.node.partitions.known_meta(claim.campaign)?;
        Some(meta.ack)
    }

    /// A position in the log that is not before the grant of a claim that was answered: its partition and the last
    /// entry that this node has observed there.
    #[must_use]
    pub fn position_after(&self, claim: &Claim) -> Option<(PartitionId, Seq)> {
        let partitions = &self.node.partitions;
        let meta = partitions.known_meta(claim.campaign)?;
        let partition = partitions.of_user(&meta, &claim.user);
        Some((partition, partitions.get(partition).min_head()))
    }

    /// Claims that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.node.queued()
    }

    /// Why partitions grant nothing any more, if any do not.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        let halted = self.node.partitions.list().iter().filter_map(|partition| {
            let reason = partition.halted()?;
            Some(format!("partition {}: {reason}", partition.id.0))
        });
        halted.reduce(|all, one| format!("{all}; {one}"))
    }

    /// Stops granting on a partition, on all nodes, because of something that was found elsewhere.
    pub async fn halt(&self, partition: PartitionId, reason: &str) {
        self.node.partitions.halt(partition, reason).await;
    }

    fn spawn<T: Send + 'static, F: Future<Output = Result<T, EngineError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Node>) -> F,
    ) -> Ticket<T> {
        if self.node.is_stopping() {
            return Ticket::ready(Err(EngineError::Stopping));
        }
        let (answer, ticket) = Ticket::new();
        let work = work(Arc::clone(&self.node));
        self.runtime.spawn(async move { answer.send(work.await) });
        ticket
    }
}

impl Engine for RedisEngine {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        if self.node.queued() >= QUEUED_MAX {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        let (answer, ticket) = Ticket::new();
        self.node.enqueue(PendingClaim { claim, answer });
        ticket
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        self.spawn(async move |node| node.run(command).await)
    }

    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        self.node.gate.answer(claim)
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        self.spawn(async move |node| node.tally(campaign).await)
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        self.spawn(async move |node| node.order(order).await)
    }

    fn probe(&self) -> Ticket<()> {
        self.spawn(async |node| node.probe().await)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        if self.node.partitions.context.options.replicas > 0 {
            &[AckLevel::Memory, AckLevel::Replica]
        } else {
            &[AckLevel::Memory]
        }
    }
}
