//! The engine on one node: what its handles and tasks share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use qiang_core::{event::PartitionId, ports::EngineError};
use tokio::sync::Mutex;

use crate::{
    batcher::{ClaimBatcher, Group, PendingClaim},
    call_connection::{Arguments, CallConnection},
    gate::Gate,
    meta::CampaignMeta,
    partitions::Partitions,
    reply::ScriptReply,
    scripts::Script,
    transfer::Pulls,
};

/// The engine on one node.
pub(crate) struct Node {
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) pulls: Pulls,
    /// One connection a partition for reading the log.
    pub(crate) readers: Vec<Mutex<CallConnection>>,
    /// One a partition.
    batchers: Vec<ClaimBatcher>,
    /// Claims that wait in all batchers.
    queued: AtomicUsize,
    stopping: AtomicBool,
}

impl Node {
    pub(crate) fn new(partitions: Partitions) -> Self {
        let partitions = Arc::new(partitions);
        let batcher = |_: &_| ClaimBatcher::default();
        Self {
            readers: partitions.connections("log"),
            batchers: partitions.list().iter().map(batcher).collect(),
            gate: Arc::new(Gate::new(Arc::clone(&partitions))),
            pulls: Pulls::new(Arc::clone(&partitions)),
            queued: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            partitions,
        }
    }

    /// Claims that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Queues a claim for its partition. After the close it is refused.
    pub(crate) fn enqueue(&self, pending: PendingClaim) {
        let claim = &pending.claim;
        let partition = match self.partitions.known_meta(claim.campaign) {
            Some(meta) => self.partitions.of_user(&meta, &claim.user),
            None => self.partitions.home(claim.campaign),
        };
        self.queued.fetch_add(1, Ordering::Relaxed);
        if let Err(pending) = self.batchers[usize::from(partition.0)].push(pending) {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            pending.answer.send(Err(EngineError::Stopping));
        }
    }

    /// The next claims of a partition to decide together. None after the close.
    pub(crate) async fn next_batch(
        &self,
        partition: PartitionId,
    ) -> Option<(Group, Vec<PendingClaim>)> {
        let batch = self.batchers[usize::from(partition.0)].take().await?;
        self.queued.fetch_sub(batch.1.len(), Ordering::Relaxed);
        Some(batch)
    }

    /// Takes no more claims; those that wait are still decided.
    pub(crate) fn close(&self) {
        self.stopping.store(true, Ordering::Release);
        for batcher in &self.batchers {
            batcher.close();
        }
    }

    /// Answers what waits, when nobody decides it any more.
    pub(crate) fn abandon(&self) {
        let error = EngineError::Uncertain {
            reason: "the engine has stopped".to_owned(),
        };
        for batcher in &self.batchers {
            let lost = batcher.abandon(&error);
            self.queued.fetch_sub(lost, Ordering::Relaxed);
        }
    }

    /// Calls a script that changes a campaign's part, and sees to the level that the campaign asks for.
    pub(crate) async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        meta: &CampaignMeta,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let partitions = &self.partitions;
        let wait = partitions.context.options.waits(meta.ack);
        let reply = partitions
            .call(partition, script, meta.id, wait, arguments)
            .await;
        self.gate.invalidate(meta.id);
        let reply = reply?;
        if wait && reply.is_ok() {
            reply.level(meta.ack)?;
        }
        Ok(reply)
    }
}
