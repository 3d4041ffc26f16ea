//! State of the engine on one node, shared by its handles and tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use qiang_core::{
    book::Claim,
    campaign::AckLevel,
    event::PartitionId,
    id::CampaignId,
    ports::{Claimed, EngineError, ReplySender},
};

use crate::{
    connection::{Arguments, Script, ScriptReply, unavailable},
    intake::{
        admission::{BLOCK_LASTS, Block, FromGate, WaitingRooms},
        admission_permits::Admission,
        batcher::{Batch, PendingClaim},
        gate::Gate,
        opening_queue::OpeningQueue,
        reload_queue::{ReloadNeed, ReloadQueue},
        unconfirmed_grants::Unconfirmed,
    },
    partition_runtime::PartitionRuntime,
    partitions::Partitions,
    protocol::{campaign_meta::CachedCampaign, scripts::ADMIT},
    shards::transfer::PullQueue,
};

/// Maximum claims that may wait on one node; more are refused as overload. A partition may have as many waiting claims
/// as there is room left. So one partition alone uses half of the room, and always leaves room for the next.
pub const QUEUED_MAX: usize = 131_072;
/// Interval of checks for claims that have waited too long.
pub(crate) const EXPIRE_EVERY: Duration = Duration::from_millis(50);

/// The engine on one node.
pub(crate) struct Node {
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) rooms: WaitingRooms,
    pub(crate) pulls: PullQueue,
    pub(crate) recalls: ReloadQueue,
    pub(crate) openings: OpeningQueue,
    /// State for each partition, by its number.
    runtimes: Vec<PartitionRuntime>,
    /// Grants that the ledger has to confirm.
    pub(crate) unconfirmed: Unconfirmed,
    /// Number of claims that wait in all batchers.
    queued: AtomicUsize,
    stopping: AtomicBool,
    started: Instant,
    /// Milliseconds since the start at the last read of the clock: see [`expire`](Self::expire).
    now_ms: AtomicU64,
}

impl Node {
    pub(crate) fn new(partitions: Partitions) -> Self {
        let partitions = Arc::new(partitions);
        let rooms = WaitingRooms::new(partitions.list().len());
        let readers = partitions.connections("log");
        Self {
            runtimes: readers.into_iter().map(PartitionRuntime::new).collect(),
            unconfirmed: Unconfirmed::default(),
            gate: Arc::new(Gate::new(
                Arc::clone(&partitions),
                Arc::clone(&rooms.signal),
            )),
            rooms,
            pulls: PullQueue::new(Arc::clone(&partitions)),
            recalls: ReloadQueue::new(partitions.list().len()),
            openings: OpeningQueue::new(partitions.list().len()),
            queued: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            now_ms: AtomicU64::new(0),
            partitions,
        }
    }

    /// State of this node for a partition.
    pub(crate) fn runtime(&self, partition: PartitionId) -> &PartitionRuntime {
        &self.runtimes[usize::from(partition.0)]
    }

    /// Number of waiting claims.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed) + self.rooms.len()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Queues a claim for its partition. Refuses it at once if the partition is given up, if too many claims wait, and
    /// after the close.
    pub(crate) fn submit(&self, claim: Claim, answer: ReplySender<Claimed>) {
        let partition = self.partition_of(&claim);
        if self.runtime(partition).is_given_up.load(Ordering::Relaxed)
            && let Some(reason) = self.partitions.given_up(partition)
        {
            return answer.send(Err(unavailable(reason)));
        }
        let pending = PendingClaim {
            claim,
            answer,
            since_ms: self.now_ms.load(Ordering::Relaxed),
            admission: Admission::Asked,
            recalls: 0,
        };
        // Claims that wait for an admission permit count as its partition's.
        let room = QUEUED_MAX.saturating_sub(self.queued());
        let room = room.saturating_sub(self.rooms.waiting_for(partition));
        self.push(partition, pending, room);
    }

    /// Queues claims of one campaign as one call of their partition. They need no admission, because a queue has
    /// admitted them. Those of a spread campaign go to their partitions one by one.
    pub(crate) fn submit_in_order(&self, claims: Vec<(Claim, ReplySender<Claimed>)>) {
        let Some(partition) = claims.first().map(|(claim, _)| self.partition_of(claim)) else {
            return;
        };
        let is_elsewhere = |(claim, _): &(Claim, _)| self.partition_of(claim) != partition;
        let is_given_up = self.runtime(partition).is_given_up.load(Ordering::Relaxed);
        if is_given_up || claims.iter().any(is_elsewhere) {
            for (claim, answer) in claims {
                self.submit(claim, answer);
            }
            return;
        }
        let since_ms = self.now_ms.load(Ordering::Relaxed);
        let pending = claims.into_iter().map(|(claim, answer)| PendingClaim {
            claim,
            answer,
            since_ms,
            admission: Admission::Free,
            recalls: 0,
        });
        let pending: Vec<_> = pending.collect();
        let count = pending.len();
        let room = QUEUED_MAX.saturating_sub(self.queued());
        let room = room.saturating_sub(self.rooms.waiting_for(partition));
        self.queued.fetch_add(count, Ordering::Relaxed);
        let queued = self.runtime(partition).batcher.push_together(pending, room);
        self.queued.fetch_sub(count - queued, Ordering::Relaxed);
    }

    /// Claims of a batch of one campaign that may be decided now; the others wait.
    pub(crate) fn admit(
        &self,
        meta: &Arc<CachedCampaign>,
        batch: Vec<PendingClaim>,
    ) -> Vec<PendingClaim> {
        let Some(ratio) = meta.admission else {
            return batch;
        };
        if meta.parts > 1 || self.is_stopping() {
            return batch;
        }
        let is_asked = |pending: &PendingClaim| {
            matches!(pending.admission, Admission::Asked) && !self.gate.is_holder(&pending.claim)
        };
        let (asked, mut go): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_asked);
        if !asked.is_empty() {
            let home = self.partitions.home(meta.id);
            go.extend(self.rooms.enter((meta, home), ratio, asked));
        }
        if self.is_stopping() {
            // No task serves waiting claims any longer.
            self.turn_away();
        }
        go
    }

    /// Answers waiting claims with the error that the engine is shutting down.
    fn turn_away(&self) {
        for pending in self.rooms.empty() {
            pending.answer.send(Err(EngineError::Stopping));
        }
    }

    /// Serves waiting claims: submits those with a permit, answers claims known to the gate, and leases permits
    /// for the rest.
    pub(crate) fn look_after_waiting(self: &Arc<Self>) {
        for meta in self.rooms.waited_for() {
            let gate = |pending: &PendingClaim| self.gate.for_waiting_claim(&pending.claim);
            for (mut pending, found) in self.rooms.answer(meta.id, gate) {
                match found {
                    FromGate::Answer(outcome) => {
                        let ack = AckLevel::Memory;
                        pending.answer.send(Ok(Claimed { outcome, ack }));
                    }
                    FromGate::Holder => {
                        pending.admission = Admission::Free;
                        self.resubmit(pending);
                    }
                }
            }
            let (go, wanted) = self.rooms.admit(meta.id);
            for pending in go {
                self.resubmit(pending);
            }
            if let Some(users) = wanted {
                tokio::spawn(Arc::clone(self).lease(meta, users));
            }
        }
    }

    /// Leases a block of permits for a sale with `users` users in flight or waiting.
    async fn lease(self: Arc<Self>, meta: Arc<CachedCampaign>, users: usize) {
        let (home, asked_at) = (self.partitions.home(meta.id), Instant::now());
        let (node, lasts_ms) = (
            &self.partitions.context.node,
            BLOCK_LASTS.as_millis() as u64,
        );
        let reply = self
            .partitions
            .call(home, &ADMIT, meta.id, None, &|command| {
                command.arg(node).arg(users).arg(lasts_ms)
            })
            .await;
        let reply = reply.ok().filter(ScriptReply::is_ok);
        let block = reply.and_then(|reply| Block::parse(&reply.text()));
        self.rooms.leased(meta.id, asked_at, block);
        if block.is_some_and(|block| block.left == 0) {
            self.gate.refresh(&meta);
        }
    }

    /// Queues an accepted claim again.
    pub(crate) fn resubmit(&self, pending: PendingClaim) {
        self.push(self.partition_of(&pending.claim), pending, usize::MAX);
    }

    fn push(&self, partition: PartitionId, pending: PendingClaim, room: usize) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        if !self.runtime(partition).batcher.push(pending, room) {
            self.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The partition that decides a claim, as far as this node knows the campaign.
    pub(crate) fn partition_of(&self, claim: &Claim) -> PartitionId {
        match self.partitions.known_meta(claim.campaign) {
            Some(meta) => self.partitions.for_user(&meta, &claim.user),
            None => self.partitions.home(claim.campaign),
        }
    }

    /// Next claims of a partition to decide, by campaign. `None` after the close. Stale claims are dropped.
    pub(crate) async fn next_batches(&self, partition: PartitionId) -> Option<Vec<Batch>> {
        loop {
            let mut batches = self.runtime(partition).batcher.take().await?;
            for (_, batch) in &mut batches {
                self.queued.fetch_sub(batch.len(), Ordering::Relaxed);
                self.drop_stale(partition, batch);
            }
            batches.retain(|(_, batch)| !batch.is_empty());
            if !batches.is_empty() {
                return Some(batches);
            }
        }
    }

    /// Removes abandoned claims, and late ones, which it answers with an error.
    pub(crate) fn drop_stale(&self, partition: PartitionId, batch: &mut Vec<PendingClaim>) {
        let before_ms = self.late_before_ms(partition);
        let is_stale = |pending: &mut PendingClaim| {
            pending.since_ms < before_ms || pending.answer.is_abandoned()
        };
        for pending in batch.extract_if(.., is_stale) {
            if !pending.answer.is_abandoned() {
                pending.answer.send(Err(self.not_decided(partition)));
            }
        }
    }

    /// Reads the clock, and answers claims that have waited too long, or that wait for a partition that is given up.
    pub(crate) fn expire(&self) {
        let now_ms = self.started.elapsed().as_millis() as u64;
        self.now_ms.store(now_ms, Ordering::Relaxed);
        for partition in self.partitions.list().iter().map(|partition| partition.id) {
            let before_ms = self.late_before_ms(partition);
            let is_given_up = &self.runtime(partition).is_given_up;
            is_given_up.store(before_ms == u64::MAX, Ordering::Relaxed);
            self.refuse(partition, before_ms, || self.not_decided(partition));
        }
        let home = |meta: &CachedCampaign| self.partitions.home(meta.id);
        self.rooms.expire(
            |meta| self.late_before_ms(home(meta)),
            |meta| self.not_decided(home(meta)),
        );
    }

    fn refuse(&self, partition: PartitionId, before_ms: u64, error: impl FnOnce() -> EngineError) {
        let refused = self.runtime(partition).batcher.refuse(before_ms, error);
        self.queued.fetch_sub(refused, Ordering::Relaxed);
    }

    /// Time for which a claim may still wait that was submitted at `since_ms`.
    pub(crate) fn patience(&self, since_ms: u64) -> Duration {
        let waited_ms = self.now_ms.load(Ordering::Relaxed).saturating_sub(since_ms);
        let wait_max = self.partitions.options().claim_timeout;
        wait_max.saturating_sub(Duration::from_millis(waited_ms))
    }

    /// Claims that were submitted before this time are no longer decided.
    fn late_before_ms(&self, partition: PartitionId) -> u64 {
        if self.partitions.given_up(partition).is_some() {
            return u64::MAX;
        }
        // A claim may have been submitted just before the next read of the clock, so its age may be this much too high.
        let wait_max = self.partitions.options().claim_timeout + EXPIRE_EVERY;
        let now_ms = self.now_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(wait_max.as_millis() as u64)
    }

    /// Error of a claim that is not decided.
    fn not_decided(&self, partition: PartitionId) -> EngineError {
        let wait_max_ms = self.partitions.options().claim_timeout.as_millis();
        let given_up = self.partitions.given_up(partition);
        unavailable(given_up.unwrap_or_else(|| {
            let partition = partition.0;
            format!("partition {partition} did not decide the claim within {wait_max_ms} ms")
        }))
    }

    /// Accepts no further claims. Waiting claims are still decided, except those of campaigns that Redis lacks.
    pub(crate) fn close(&self) {
        self.stopping.store(true, Ordering::Release);
        self.recalls.stop();
        for pending in self.rooms.empty() {
            self.resubmit(pending);
        }
        for runtime in &self.runtimes {
            runtime.batcher.close();
        }
    }

    /// Answers waiting claims that no task decides any longer.
    pub(crate) fn abandon(&self) {
        self.turn_away();
        for partition in self.partitions.list() {
            self.refuse(partition.id, u64::MAX, || {
                EngineError::uncertain("the engine has stopped")
            });
        }
    }

    /// Makes the gate forget a campaign that has changed, for example by restocked units. Waiting claims are checked
    /// again.
    pub(crate) fn invalidate(&self, campaign: CampaignId) {
        self.gate.invalidate(campaign);
        self.rooms.reopen(campaign);
    }

    /// Calls a script that changes a shard, and makes the gate forget the campaign.
    pub(crate) async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        (meta, need): (&CachedCampaign, ReloadNeed),
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let campaign = (meta.id, meta.ack);
        let change = || {
            let partitions = &self.partitions;
            partitions.change(partition, script, campaign, arguments)
        };
        let reply = self.call_back((meta.id, need), change).await;
        self.invalidate(meta.id);
        reply
    }
}
