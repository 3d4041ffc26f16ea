//! Trait of engines, which decide claims. They answer through pending replies, which need no particular async runtime.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    book::{Claim, Command, OrderView, Refusal, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
};

/// Error of an engine that gave no decision. A repeated request is always safe: the engine replays an existing grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine's queue or memory is full; nothing was decided.
    #[error("the engine is overloaded: its queue or its memory is full")]
    Overloaded,
    /// Answers of the campaign, or of all campaigns of its owner, that wait for the ledger fill their share of the
    /// buffer; nothing was decided.
    #[error(
        "answers of the campaign or its owner that wait for the ledger fill their share of the buffer"
    )]
    LedgerShareFull,
    /// Campaigns that were reloaded into memory a short time ago use all memory for reloads; nothing was decided.
    #[error("campaigns that were reloaded in the last minutes use all memory for reloads")]
    ReloadBudgetUsed,
    /// The engine grants nothing until it is repaired (invariant 6); nothing was decided.
    #[error("the engine has stopped granting: {reason}")]
    Unavailable {
        /// Cause, for the operator.
        reason: String,
    },
    /// The result of the commit is unknown: the decision may have taken effect.
    #[error("commit result unknown, retry with the same key: {reason}")]
    Uncertain {
        /// Cause, for the operator.
        reason: String,
    },
    /// The process is shutting down; nothing was decided.
    #[error("the engine is shutting down")]
    Stopping,
    /// The engine refused the command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Other users wait longer, as many as the sale's admission ratio allows; nothing was decided.
    #[error("not admitted: pending claims already cover the remaining stock")]
    NotAdmitted,
}

impl EngineError {
    /// Builds [`EngineError::Unavailable`] with this reason.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Unavailable { reason }
    }

    /// Builds [`EngineError::Uncertain`] with this reason.
    pub fn uncertain(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Uncertain { reason }
    }
}

/// A decided claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Outcome of the claim.
    pub outcome: Outcome,
    /// Failures that the decision survives.
    pub ack: AckLevel,
}

/// Counts of this node's claims since its start, by the source of their answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateAnswers {
    /// Claims that waited for admission and that the gate then answered: by outcome, in order of precedence.
    pub outcomes: [u64; Outcome::NAMES.len()],
    /// Claims that waited for admission and were refused.
    pub not_admitted: u64,
    /// Claims that were sent for a decision to a Redis primary or to the writer's book.
    pub decided: u64,
}

/// Result of a probe of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The partition grants at every level that the engine offers.
    Ready,
    /// The partition works, but misses something: replicas that some grants need, or memory for new grants. Until then,
    /// affected claims are refused as overload.
    Degraded {
        /// Missing resource, for the operator.
        reason: String,
    },
}

/// A pending answer: a future that needs no particular runtime. If it is dropped, the command is not undone. If a
/// claim's pending reply is dropped before the decision, the engine may leave the claim undecided.
#[derive(Debug)]
pub struct PendingReply<T>(PendingReplyState<T>);

#[derive(Debug)]
enum PendingReplyState<T> {
    Ready(Option<Result<T, EngineError>>),
    Waiting(oneshot::AsyncReceiver<Result<T, EngineError>>),
}

/// Sender of a [`PendingReply`]'s answer. If it is dropped without an answer, the pending reply is
/// [`EngineError::Uncertain`].
#[derive(Debug)]
pub struct ReplySender<T>(oneshot::Sender<Result<T, EngineError>>);

impl<T> ReplySender<T> {
    /// Delivers the answer. Drops it if the pending reply was dropped.
    pub fn send(self, answer: Result<T, EngineError>) {
        drop(self.0.send(answer));
    }

    /// Whether the pending reply was dropped, so that no caller waits for the answer.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> PendingReply<T> {
    /// A pending reply, and the sender of its answer.
    pub fn new() -> (ReplySender<T>, Self) {
        let (sender, receiver) = oneshot::async_channel();
        (
            ReplySender(sender),
            Self(PendingReplyState::Waiting(receiver)),
        )
    }

    /// A reply that already has its answer.
    pub fn ready(answer: Result<T, EngineError>) -> Self {
        Self(PendingReplyState::Ready(Some(answer)))
    }
}

impl<T: Unpin> Future for PendingReply<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lost = || EngineError::uncertain("the engine dropped the request");
        match &mut self.0 {
            PendingReplyState::Ready(answer) => {
                Poll::Ready(answer.take().unwrap_or_else(|| Err(lost())))
            }
            PendingReplyState::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| Err(lost()))),
        }
    }
}

/// Decides claims and all other commands that must be atomic with them.
///
/// Submission never blocks and never waits: if the queue is full, it answers [`EngineError::Overloaded`] at once. A
/// busy engine may collect submitted commands and decide them in one batch.
pub trait Engine: Send + Sync + 'static {
    /// Submits a claim. Claims have no other path, so that every outcome comes with the level it reached.
    fn claim(&self, claim: Claim) -> PendingReply<Claimed>;

    /// Submits claims of one campaign that are decided in this order. If the process dies, the decided ones are a
    /// prefix. If a claim cannot be granted because the campaign is paused or has not started, no later one is granted:
    /// the campaign may resume or open at the same time. The shards of a spread campaign decide independently, each in
    /// this order.
    fn claim_in_order(&self, claims: Vec<Claim>) -> Vec<PendingReply<Claimed>> {
        claims.into_iter().map(|claim| self.claim(claim)).collect()
    }

    /// Submits a command.
    fn submit(&self, command: Command) -> PendingReply<Reply>;

    /// Answer of the gate to a claim that needs no decision, from this node's memory; `None` if only the engine can
    /// decide.
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome>;

    /// [`Engine::peek`] for callers that would otherwise be refused. It briefly waits for a busy engine if
    /// [`Engine::peek`] has no answer.
    fn gate_outcome(&self, claim: &Claim) -> PendingReply<Option<Outcome>> {
        PendingReply::ready(Ok(self.try_gate_outcome(claim)))
    }

    /// Partition that decides a claim, as far as this node knows the campaign. Default: unknown.
    fn partition_for(&self, _claim: &Claim) -> Option<PartitionId> {
        None
    }

    /// Whether this node's memory knows that a campaign was durably opened. If false, the reply to [`Command::Open`] is
    /// exact.
    fn has_opened(&self, _campaign: CampaignId) -> bool {
        false
    }

    /// Counts of submitted claims by the source of their answers.
    fn gate_answers(&self) -> GateAnswers {
        GateAnswers::default()
    }

    /// Counters of a campaign; `None` if the engine does not know it.
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>>;

    /// Counters of a campaign after every command that was answered before, never those of a replica; `None` if the
    /// engine does not know it. Default: [`Engine::tally`].
    fn present_tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.tally(campaign)
    }

    /// Whether no shard of a paused campaign grants. The tally already shows a campaign as paused if one shard is.
    /// Default: yes, because a campaign has one shard.
    fn is_paused_throughout(&self, _campaign: CampaignId) -> PendingReply<bool> {
        PendingReply::ready(Ok(true))
    }

    /// An order and its owner as soon as it is granted; `None` if the engine does not know it.
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>>;

    /// Runs all steps of a grant on a partition, including the commit, without granting anything.
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult>;

    /// Longest time in milliseconds after which a command may still take effect, if it was answered
    /// [`EngineError::Uncertain`] or its process ended. Default: 0, so that every later read sees its effect.
    fn late_for_ms(&self) -> i64 {
        0
    }

    /// Acknowledgement levels that this engine can reach.
    fn ack_levels(&self) -> &'static [AckLevel];
}
