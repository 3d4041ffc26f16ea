//! The engine: decides claims, and answers through tickets that need no particular runtime.

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

/// Why an engine gave no decision. Whatever it was, repeating the request is safe: a grant that was made is replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine takes no more for now, because its queue or its memory is full; nothing was decided.
    #[error("the engine takes no more claims for now: its queue or its memory is full")]
    Overloaded,
    /// The campaign's answers that wait for the ledger fill its share of the room for them; nothing was decided.
    #[error("the campaign's answers that wait for the ledger fill their share of the room")]
    LedgerShareFull,
    /// The engine has stopped granting until it is repaired (invariant 6); nothing was decided.
    #[error("the engine has stopped granting: {reason}")]
    Unavailable {
        /// What is wrong, for the operator.
        reason: String,
    },
    /// The decision's fate is unknown: it may or may not have been kept.
    #[error("the engine cannot tell whether the decision was kept: {reason}")]
    Uncertain {
        /// What went wrong, for the operator.
        reason: String,
    },
    /// The process is going down; nothing was decided.
    #[error("the engine is shutting down")]
    Stopping,
    /// The command cannot be carried out.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// As many other users as the sale's admission ratio allows have been waiting longer; nothing was decided.
    #[error("all units that are left are being asked for")]
    NotAdmitted,
}

impl EngineError {
    /// The engine has stopped granting, for this reason.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Unavailable { reason }
    }

    /// The decision's fate is unknown, for this reason.
    pub fn uncertain(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Uncertain { reason }
    }
}

/// A decided claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// What it ended in.
    pub outcome: Outcome,
    /// What the decision survives.
    pub ack: AckLevel,
}

/// How claims were answered that were submitted to an engine on this node, since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateAnswers {
    /// Those that were held back, and answered by the gate after all: by outcome, in order of precedence.
    pub outcomes: [u64; Outcome::NAMES.len()],
    /// Those that were held back until they were turned away.
    pub not_admitted: u64,
    /// Those that were sent to whoever decides: a Redis primary, or the writer's book.
    pub decided: u64,
}

/// What a probe of a partition has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// Grants are made, at every level that the engine offers.
    Ready,
    /// The partition serves, and something is missing: replicas that some grants need, or memory for new ones, so that
    /// claims are refused as overload for a while.
    Degraded {
        /// What is missing, for the operator.
        reason: String,
    },
}

/// An answer that is on its way: a future that needs no particular runtime. Dropping it does not undo the command; an
/// engine may leave a claim undecided whose ticket was dropped before the decision.
#[derive(Debug)]
pub struct Ticket<T>(TicketState<T>);

#[derive(Debug)]
enum TicketState<T> {
    Ready(Option<Result<T, EngineError>>),
    Waiting(oneshot::AsyncReceiver<Result<T, EngineError>>),
}

/// The other end of a [`Ticket`]. Dropped unanswered, the ticket reads [`EngineError::Uncertain`].
#[derive(Debug)]
pub struct Answer<T>(oneshot::Sender<Result<T, EngineError>>);

impl<T> Answer<T> {
    /// Delivers the answer; if nobody waits any more, it is dropped.
    pub fn send(self, answer: Result<T, EngineError>) {
        drop(self.0.send(answer));
    }

    /// Whether the ticket was dropped: nobody waits for the answer any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> Ticket<T> {
    /// A ticket to be answered through the returned end.
    pub fn new() -> (Answer<T>, Self) {
        let (sender, receiver) = oneshot::async_channel();
        (Answer(sender), Self(TicketState::Waiting(receiver)))
    }

    /// A ticket that has its answer.
    pub fn ready(answer: Result<T, EngineError>) -> Self {
        Self(TicketState::Ready(Some(answer)))
    }
}

impl<T: Unpin> Future for Ticket<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lost = || EngineError::uncertain("the engine dropped the request");
        match &mut self.0 {
            TicketState::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(|| Err(lost()))),
            TicketState::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| Err(lost()))),
        }
    }
}

/// Decides claims and everything else that must be atomic with them.
///
/// Submission never blocks and never waits: a full queue answers [`EngineError::Overloaded`] at once. Engines are
/// free to gather what is submitted while they are busy and to decide it in one step.
pub trait Engine: Send + Sync + 'static {
    /// Submits a claim: the only way to have one decided, so that every outcome comes with the level it reached.
    fn claim(&self, claim: Claim) -> Ticket<Claimed>;

    /// Submits a command.
    fn submit(&self, command: Command) -> Ticket<Reply>;

    /// The gate: the answer to a claim that needs no decision, from this node's memory; `None` when the engine must
    /// be asked.
    fn peek(&self, claim: &Claim) -> Option<Outcome>;

    /// The same, for whoever is refused something otherwise: it waits for an engine that is busy for a moment, where
    /// [`Engine::peek`] has no answer.
    fn look(&self, claim: &Claim) -> Ticket<Option<Outcome>> {
        Ticket::ready(Ok(self.peek(claim)))
    }

    /// Whether this node's memory says that a campaign was opened, durably. Where it does not, [`Command::Open`] tells.
    fn has_opened(&self, _campaign: CampaignId) -> bool {
        false
    }

    /// How claims were answered that were submitted.
    fn gate_answers(&self) -> GateAnswers {
        GateAnswers::default()
    }

    /// A campaign's numbers; `None` if the engine does not know it.
    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>>;

    /// A campaign's numbers after every command that was answered before, never those of a replica; `None` if the
    /// engine does not know it. Default: [`Engine::tally`].
    fn present_tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        self.tally(campaign)
    }

    /// Whether no part of a campaign grants whose tally is paused: one paused part is enough for that tally.
    /// Default: yes, because a campaign is one part.
    fn is_paused_throughout(&self, _campaign: CampaignId) -> Ticket<bool> {
        Ticket::ready(Ok(true))
    }

    /// An order and whose it is, as soon as it is granted; `None` if the engine does not know it.
    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>>;

    /// Goes the way of a grant on a partition, up to and including its commit, without granting anything.
    fn probe(&self, partition: PartitionId) -> Ticket<Probed>;

    /// Longest time in milliseconds after which a command may take effect that was answered
    /// [`EngineError::Uncertain`], or whose process is gone. Default: 0, every later read has its effect.
    fn late_for_ms(&self) -> i64 {
        0
    }

    /// The acknowledgement levels that this engine can reach.
    fn ack_levels(&self) -> &'static [AckLevel];
}
