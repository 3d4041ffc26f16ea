//! The engine's handle: start, the `Engine` port, stop.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use qiang_core::{
    book::{CampaignAction, Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::{PartitionId, Seq},
    fair_share::OwnerDigest,
    id::{CampaignId, OrderId},
    outcome::{Grant, Outcome},
    ports::{
        Claimed, Engine, EngineError, GateAnswers, Ledger, PendingReply, ProbeResult, RetireEngine,
        RetireResult,
    },
    time::Timestamp,
};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    campaigns::claims::{self, CALLS_MAX},
    connection::{
        ConnectError, ConnectionContext, MemoryUse, PartitionHandle, PartitionHealth,
        RedisConnections, RedisOptions, check_servers, check_set_up,
    },
    intake::reload_queue::ReloadNeed,
    node::Node,
    partitions::Partitions,
    protocol::campaign_meta::FoundCampaign,
    queues::RedisQueues,
    repair_offer, tasks,
};

/// Maximum duration of in-flight claims at the close.
const CLOSE_MAX: Duration = Duration::from_secs(10);
/// Longest time from the record of a command to its call, plus the difference between the clocks of two nodes.
const LATE_BEHIND: Duration = Duration::from_secs(10);

/// Engine and log on Redis. A clone is another handle to the same engine.
#[derive(Clone)]
pub struct RedisEngine {
    pub(crate) node: Arc<Node>,
    pub(crate) lines: Arc<RedisQueues>,
    pub(crate) runtime: Handle,
    tasks: Arc<Mutex<Tasks>>,
}

#[derive(Default)]
struct Tasks {
    /// Tasks that decide claims. They end when all waiting claims are decided.
    deciding: Vec<JoinHandle<()>>,
    /// Tasks that run until they are aborted.
    background: Vec<JoinHandle<()>>,
}

impl RedisEngine {
    /// Connects, on the current runtime. `settled` are the ledger's positions: a Redis partition with fewer entries has
    /// lost something, and grants nothing. If the ledger is empty, an empty Redis is initialized.
    ///
    /// # Errors
    /// If an option is invalid, or Redis was initialized with another number of partitions, or its clock is too much
    /// earlier than its log. An unreachable Redis is no error: its partitions stay unreachable until it answers.
    pub async fn connect(
        options: RedisOptions,
        settled: &[(PartitionId, Seq)],
    ) -> Result<Self, ConnectError> {
        let fresh = has_nothing(settled);
        let context = ConnectionContext::new(options)?;
        Self::start(context, settled, fresh).await
    }

    /// Connects like [`connect`](Self::connect) to an existing installation, for tools that serve no users. An empty
    /// Redis is not initialized.
    ///
    /// # Errors
    /// As `connect`. Also if both Redis and the ledger are empty.
    pub async fn attach(
        options: RedisOptions,
        settled: &[(PartitionId, Seq)],
    ) -> Result<Self, ConnectError> {
        let context = ConnectionContext::new(RedisOptions {
            serves: false,
            ..options
        })?;
        if has_nothing(settled) {
            check_set_up(&context).await?;
        }
        Self::start(context, settled, false).await
    }

    async fn start(
        context: ConnectionContext,
        settled: &[(PartitionId, Seq)],
        fresh: bool,
    ) -> Result<Self, ConnectError> {
        check_servers(&context).await?;
        let connections = RedisConnections::connect(context, settled, fresh).await?;
        let partitions = Partitions::new(connections);
        let options = partitions.options();
        if options.serves {
            partitions.check_clocks(options.clock_behind_max).await?;
        }
        let node = Node::new(partitions);
        let engine = Self {
            lines: Arc::new(RedisQueues::new(&node.partitions)),
            node: Arc::new(node),
            runtime: Handle::current(),
            tasks: Arc::default(),
        };
        let open = engine.node.partitions.list().iter();
        let open = open.filter(|partition| partition.is_open());
        // If this fails, it is repeated, also before a tick changes anything.
        drop(join_all(open.map(|partition| engine.node.note_served(partition.id))).await);
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
            let presence = self.runtime.spawn(tasks::presence(node(), partition.id));
            let suspensions = tasks::look_for_suspensions(node(), partition.id);
            let suspensions = self.runtime.spawn(suspensions);
            let types = self.runtime.spawn(tasks::check_types(node(), partition.id));
            tasks.background.extend([presence, suspensions, types]);
            if self.node.partitions.options().ticks {
                let ticking = self.runtime.spawn(tasks::tick(node(), partition.id));
                tasks.background.push(ticking);
            }
            if self.node.partitions.options().serves {
                let serving = self.runtime.spawn(tasks::serve(node(), partition.id));
                tasks.background.push(serving);
            }
        }
        tasks.background.extend([
            self.runtime.spawn(tasks::listen(node())),
            self.runtime.spawn(tasks::poll(node())),
            self.runtime.spawn(tasks::beat(node())),
            self.runtime.spawn(tasks::follow(node())),
            self.runtime.spawn(tasks::expire(node())),
            self.runtime.spawn(tasks::admit(node())),
            self.runtime.spawn(tasks::recall(node())),
            self.runtime.spawn(repair_offer::offer(node())),
        ]);
    }

    /// Answers accepted claims, and accepts none from then on. The log can be read until the close. Idempotent.
    pub async fn finish(&self) {
        self.node.close();
        let deciding = std::mem::take(&mut self.tasks.lock().deciding);
        let until = tokio::time::Instant::now() + CLOSE_MAX;
        for mut task in deciding {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                task.abort();
            }
        }
        self.node.abandon();
    }

    /// Last entry of each partition that this node has answered or read.
    #[must_use]
    pub fn known_positions(&self) -> Vec<(PartitionId, Seq)> {
        let list = self.node.partitions.list().iter();
        list.map(|partition| (partition.id, partition.min_head()))
            .collect()
    }

    /// Answers accepted claims, and stops. Idempotent.
    pub async fn close(&self) {
        self.finish().await;
        let background = std::mem::take(&mut self.tasks.lock().background);
        for task in background {
            task.abort();
            // Waits, so that nothing is written after the close.
            drop(task.await);
        }
        self.node.abandon();
        let partitions = &self.node.partitions;
        join_all(
            partitions
                .list()
                .iter()
                .map(|partition| partitions.leave(partition.id)),
        )
        .await;
    }

    /// Stops at once, like a crash: in-flight work is neither finished nor answered.
    pub fn abort(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks.deciding.into_iter().chain(tasks.background) {
            task.abort();
        }
        self.node.close();
        self.node.abandon();
    }

    /// Removes all data of this installation from Redis, at the end of a demonstration or a benchmark. Closes the
    /// engine first.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn erase(&self) -> Result<(), EngineError> {
        self.close().await;
        for partition in self.node.partitions.list() {
            self.node.partitions.erase(partition.id).await?;
        }
        Ok(())
    }

    /// Ack level that a campaign requests, and its owner, if this node knows the campaign.
    #[must_use]
    pub fn ack_and_owner(&self, campaign: CampaignId) -> Option<(AckLevel, OwnerDigest)> {
        let meta = self.node.partitions.known_meta(campaign)?;
        Some((meta.ack, meta.owner))
    }

    /// Position in the log that is not before the grant of an answered claim: its partition and the last entry that
    /// this node has observed there.
    #[must_use]
    pub fn position_after(&self, claim: &Claim) -> Option<(PartitionId, Seq)> {
        let partitions = &self.node.partitions;
        let meta = partitions.known_meta(claim.campaign)?;
        let partition = partitions.for_user(&meta, &claim.user);
        Some((partition, partitions.get(partition).min_head()))
    }

    /// Position of a grant that this node has made, if its campaign requests the ledger level: its partition, and the
    /// last entry of its call. `None` once the grant is [confirmed](Self::confirmed).
    #[must_use]
    pub fn place_of(&self, grant: &Grant) -> Option<(PartitionId, Seq)> {
        self.node.unconfirmed.place(grant)
    }

    /// Forgets the position of a grant: the ledger has reached it, and its row is now authoritative.
    pub fn confirmed(&self, grant: &Grant) {
        self.node.unconfirmed.forget(grant);
    }

    /// Position in the log that is not before any answer about a campaign in its first shard: that shard's partition
    /// and the last entry that this node has observed there.
    #[must_use]
    pub fn home_position(&self, campaign: CampaignId) -> (PartitionId, Seq) {
        let partitions = &self.node.partitions;
        let home = partitions.home(campaign);
        (home, partitions.get(home).min_head())
    }

    /// Ack level that a campaign requests; `None` for an unknown campaign.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] if Redis does not answer, because this is read after a command that was carried out.
    pub async fn read_level_of(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<AckLevel>, EngineError> {
        let found = self.node.find((campaign, ReloadNeed::Any)).await;
        Ok(
            match found.map_err(|error| EngineError::uncertain(error.to_string()))? {
                FoundCampaign::Here(meta) => Some(meta.ack),
                FoundCampaign::Settled(record) => Some(record.campaign.ack),
                FoundCampaign::Unknown => None,
            },
        )
    }

    /// Positions in the log that are not before an answered command: one in each partition that it changes.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] if Redis does not return the campaign's partitions.
    pub async fn positions_after(
        &self,
        command: &Command,
    ) -> Result<Vec<(PartitionId, Seq)>, EngineError> {
        let partitions = &self.node.partitions;
        let place = |partition| (partition, partitions.get(partition).min_head());
        let command = command.without_key();
        let campaign = match command {
            // The first shard decides for the others.
            Command::SetStock { campaign, .. }
            | Command::SetTerms { campaign, .. }
            | Command::SetSale { campaign, .. }
            | Command::Correct { campaign, .. }
            | Command::Act {
                campaign,
                action: CampaignAction::Start,
            } => {
                return Ok(vec![self.home_position(*campaign)]);
            }
            Command::Tick { .. } | Command::Keyed { .. } => return Ok(Vec::new()),
            Command::Open(setup) => setup.campaign.id,
            Command::Act { campaign, .. } => *campaign,
            Command::Pay { order, .. }
            | Command::Cancel { order, .. }
            | Command::ExtendHold { order, .. }
            | Command::Return { order, .. } => order.campaign,
        };
        let found = self.node.find((campaign, ReloadNeed::Any)).await;
        let meta = match found.map_err(|error| EngineError::uncertain(error.to_string()))? {
            FoundCampaign::Here(meta) => meta,
            // The ledger has all entries of it.
            FoundCampaign::Settled(_) => return Ok(Vec::new()),
            FoundCampaign::Unknown => {
                return Err(EngineError::uncertain(
                    "the campaign was evicted from Redis",
                ));
            }
        };
        Ok(match command {
            Command::Pay { order, .. }
            | Command::Cancel { order, .. }
            | Command::ExtendHold { order, .. }
            | Command::Return { order, .. } => {
                vec![place(partitions.for_order(&meta, order.number))]
            }
            _ => partitions.for_campaign(&meta).map(place).collect(),
        })
    }

    /// Number of waiting claims.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.node.queued()
    }

    /// Reasons why partitions do not grant; `None` if all grant.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        let list = self.partition_states().into_iter();
        let stopped = list.filter_map(|(partition, reason)| {
            Some(format!("partition {}: {}", partition.0, reason?))
        });
        stopped.reduce(|all, one| format!("{all}; {one}"))
    }

    /// Times of the partitions whose servers were asked recently.
    pub fn times(&self) -> impl Iterator<Item = (PartitionId, Timestamp)> {
        self.node.partitions.times()
    }

    /// Time by which windows are judged: a campaign that starts then is open in each partition. `None` if no server was
    /// asked recently.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        let earliest = self.times().map(|(_, time)| time).min()?;
        // An estimate may be ahead by a millisecond, because both times are rounded down.
        match self.node.partitions.options().clock {
            Some(_) => Some(earliest),
            None => Some(earliest.plus_millis(-1)),
        }
    }

    /// All partitions, each with the reason why it does not grant, if it is halted or unreachable.
    #[must_use]
    pub fn partition_states(&self) -> Vec<(PartitionId, Option<String>)> {
        let stopped = |partition: &Arc<PartitionHandle>| match partition.state() {
            PartitionHealth::Open | PartitionHealth::Gathering => None,
            PartitionHealth::Halted { reason, .. } | PartitionHealth::Unreachable { reason } => {
                Some(reason)
            }
        };
        let list = self.node.partitions.list().iter();
        list.map(|partition| (partition.id, stopped(partition)))
            .collect()
    }

    /// All partitions, each with the number of replicas that its primary lacks for grants that wait. Empty if
    /// grants wait for no replica.
    #[must_use]
    pub fn replicas_missing(&self) -> Vec<(PartitionId, u32)> {
        let partitions = &self.node.partitions;
        if partitions.options().replicas == 0 {
            return Vec::new();
        }
        let ids = partitions.list().iter().map(|partition| partition.id);
        ids.map(|id| (id, partitions.replicas_missing(id)))
            .collect()
    }

    /// Memory of each partition's primary, as of the last presence call.
    #[must_use]
    pub fn memory(&self) -> Vec<(PartitionId, MemoryUse)> {
        let partitions = &self.node.partitions;
        let ids = partitions.list().iter().map(|partition| partition.id);
        ids.filter_map(|id| Some((id, partitions.memory(id)?)))
            .collect()
    }

    /// Campaigns that repairs have taken out of service, as this node has found a moment ago.
    #[must_use]
    pub fn campaigns_out_of_service(&self) -> BTreeSet<CampaignId> {
        let partitions = self.node.partitions.list().iter();
        let suspended =
            partitions.map(|partition| self.node.runtime(partition.id).suspended.lock().clone());
        suspended.flatten().collect()
    }

    /// The partition that decides a claim, as far as this node knows the campaign.
    #[must_use]
    pub fn partition_of(&self, claim: &Claim) -> PartitionId {
        self.node.partition_of(claim)
    }

    /// State of a partition, as this node sees it. This node stores no part of the state, so a partition that resumes
    /// on another node resumes here as well.
    #[must_use]
    pub fn state(&self, partition: PartitionId) -> PartitionHealth {
        self.node.partitions.state(partition)
    }

    /// Halts a partition for an operator, on all nodes.
    ///
    /// # Errors
    /// If Redis does not answer, or the partition is halted already.
    pub async fn halt(&self, partition: PartitionId, reason: &str) -> Result<(), EngineError> {
        self.node.partitions.halt(partition, reason, false).await
    }

    /// Resumes a repaired partition, under a new epoch, after the entry `base` and everything lost. `epoch` is the one
    /// that Redis has; `None` if its state is gone. False if another process was faster.
    ///
    /// # Errors
    /// If Redis does not answer. The partition may still have resumed.
    pub async fn resume(
        &self,
        partition: PartitionId,
        epoch: Option<&str>,
        base: Seq,
    ) -> Result<bool, EngineError> {
        self.node.partitions.resume(partition, epoch, base).await
    }

    fn spawn<T: Send + 'static, F: Future<Output = Result<T, EngineError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Node>) -> F,
    ) -> PendingReply<T> {
        if self.node.is_stopping() {
            return PendingReply::ready(Err(EngineError::Stopping));
        }
        let (answer, ticket) = PendingReply::new();
        let work = work(Arc::clone(&self.node));
        self.runtime.spawn(async move { answer.send(work.await) });
        ticket
    }
}

impl Engine for RedisEngine {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.node.submit(claim, answer);
        ticket
    }

    fn claim_in_order(&self, claims: Vec<Claim>) -> Vec<PendingReply<Claimed>> {
        let submitted = claims.into_iter().map(|claim| {
            let (answer, ticket) = PendingReply::new();
            ((claim, answer), ticket)
        });
        let (claims, tickets) = submitted.unzip();
        self.node.submit_in_order(claims);
        tickets
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        self.spawn(async move |node| node.run(command).await)
    }

    fn partition_for(&self, claim: &Claim) -> Option<PartitionId> {
        Some(self.partition_of(claim))
    }

    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.node.gate.answer(claim)
    }

    fn gate_answers(&self) -> GateAnswers {
        self.node.rooms.answers()
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.spawn(async move |node| node.tally(campaign).await)
    }

    fn present_tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.spawn(async move |node| node.present_tally(campaign).await)
    }

    fn is_paused_throughout(&self, campaign: CampaignId) -> PendingReply<bool> {
        self.spawn(async move |node| node.is_paused_throughout(campaign).await)
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.spawn(async move |node| node.order(order).await)
    }

    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.spawn(async move |node| node.probe(partition).await)
    }

    fn late_for_ms(&self) -> i64 {
        let claim_timeout = self.node.partitions.options().claim_timeout * 2 + LATE_BEHIND;
        i64::try_from(claim_timeout.as_millis()).unwrap_or(i64::MAX)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        if self.node.partitions.options().replicas > 0 {
            &[AckLevel::Memory, AckLevel::Replica]
        } else {
            &[AckLevel::Memory]
        }
    }
}

/// Whether the ledger has no entry of any partition.
fn has_nothing(settled: &[(PartitionId, Seq)]) -> bool {
    settled.iter().all(|(_, seq)| *seq == 0)
}

#[async_trait]
impl RetireEngine for RedisEngine {
    fn recall_from(&self, ledger: Arc<dyn Ledger>) {
        self.node.recalls.read_from(ledger);
    }

    async fn leads_retiring(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let key = partitions.keys().retirer(partition);
        partitions.leads(partition, key, lease).await
    }

    async fn retire(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RetireResult, EngineError> {
        self.node.retire(partition, ledger).await
    }
}
