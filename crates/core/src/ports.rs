//! The ports: where engines, ledgers, logs and clocks meet. Siblings never import each other; they implement these.

mod transport;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use uuid::Uuid;

pub use self::transport::{Delivery, DeliveryTag, Received, Transport, TransportStatus};
pub use crate::time::Clock;
use crate::{
    book::{Claim, Command, OrderView, Refusal, Reply, Setup},
    campaign::{AckLevel, Campaign, Phase, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, OrderId, UserId},
    money::Money,
    outcome::Outcome,
    time::Timestamp,
};

/// Why an engine gave no decision. Whatever it was, repeating the request is safe: a grant that was made is replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The queue is full; nothing was decided.
    #[error("the engine's queue is full")]
    Overloaded,
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
}

/// A decided claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// What it ended in.
    pub outcome: Outcome,
    /// What the decision survives.
    pub ack: AckLevel,
}

/// An answer that is on its way: a future that needs no particular runtime. Dropping it does not undo the command.
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
}

impl<T> Ticket<T> {
    /// A ticket to be answered through the returned end.
    #[must_use]
    pub fn new() -> (Answer<T>, Self) {
        let (sender, receiver) = oneshot::async_channel();
        (Answer(sender), Self(TicketState::Waiting(receiver)))
    }

    /// A ticket that has its answer.
    #[must_use]
    pub fn ready(answer: Result<T, EngineError>) -> Self {
        Self(TicketState::Ready(Some(answer)))
    }
}

impl<T: Unpin> Future for Ticket<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lost = || EngineError::Uncertain {
            reason: "the engine dropped the request".to_owned(),
        };
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
    /// Submits a claim.
    fn claim(&self, claim: Claim) -> Ticket<Claimed>;

    /// Submits any other command.
    fn submit(&self, command: Command) -> Ticket<Reply>;

    /// The gate: the answer to a claim that needs no decision, from this node's memory; `None` when the engine must
    /// be asked.
    fn peek(&self, claim: &Claim) -> Option<Outcome>;

    /// A campaign's numbers; `None` if the engine does not know it.
    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>>;

    /// An order and whose it is, as soon as it is granted; `None` if the engine does not know it.
    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>>;

    /// Goes the way of a grant, up to and including its commit, without granting anything.
    fn probe(&self) -> Ticket<()>;

    /// The acknowledgement levels that this engine can reach.
    fn ack_levels(&self) -> &'static [AckLevel];
}

/// A partition's append-only sequence of entries, as settlement reads it.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// The partitions of this log.
    fn partitions(&self) -> Vec<PartitionId>;

    /// The last entry of a partition that is kept for good; 0 when there is none.
    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// Up to `limit` entries after `after`, in order, without gaps. Entries that were released may be gone.
    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Entries up to and with `upto` are in the ledger for good: the log may forget them.
    async fn release(&self, _partition: PartitionId, _upto: Seq) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// Why the ledger did not do it. Nothing changed, except perhaps after [`LedgerError::Uncertain`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The account has less than is asked for.
    #[error("the account holds {held}, and {needed} is needed")]
    InsufficientFunds {
        /// What the account holds.
        held: Money,
        /// What is needed.
        needed: Money,
    },
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used before, for a different request")]
    KeyReused,
    /// An amount that is not above 0, or larger than [`AMOUNT_MINOR_MAX`](crate::money::AMOUNT_MINOR_MAX).
    #[error("an amount is 1 to {} minor units", crate::money::AMOUNT_MINOR_MAX)]
    AmountOutOfRange,
    /// A sum left 64 bits.
    #[error("the account cannot hold that much")]
    Overflow,
    /// The database did not answer, or refused.
    #[error("the ledger is not available: {reason}")]
    Unavailable {
        /// What is wrong, for the operator.
        reason: String,
    },
    /// The commit failed, and may have been kept all the same.
    #[error("the ledger cannot tell whether the change was kept: {reason}")]
    Uncertain {
        /// What went wrong, for the operator.
        reason: String,
    },
    /// The log has lost entries that it had: a failover or a restart took it back. Nothing of it may be settled.
    #[error("the log has lost entries, and ends at {head} now")]
    LogLost {
        /// Where it ends now.
        head: Seq,
    },
    /// What is in the database contradicts itself.
    #[error("the ledger is damaged: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
}

/// The durable meaning of an idempotency key: the id that the request's effect has, and will have whenever it is
/// repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBinding {
    /// The id bound to the key.
    pub id: Uuid,
    /// Whether it was bound just now.
    pub fresh: bool,
}

/// What an account holds in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// What can be spent.
    pub available: Money,
    /// Payments owed back: they bought nothing any more.
    pub refunds_due_minor: i64,
}

/// A campaign as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignRecord {
    /// As it was created.
    pub campaign: Campaign,
    /// As settled; the engine may be ahead. A campaign that is spread over several partitions is a draft until all its
    /// parts have opened, then paused while a part that has not ended is, ended when all have, and closed when all are.
    pub phase: Phase,
    /// Units that users have, as settled.
    pub granted: u32,
    /// Units returned at the close.
    pub returned: u32,
    /// Minor units refunded at the close.
    pub refunded_minor: i64,
}

/// One settled grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRecord {
    /// Its number in its campaign.
    pub number: u32,
    /// Who has it.
    pub user: UserId,
    /// Units.
    pub quantity: u32,
    /// Minor units.
    pub amount_minor: i64,
    /// When it was decided.
    pub granted_at: Timestamp,
}

/// An entry that could not be settled, and is kept until it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedEntry {
    /// The partition.
    pub partition: PartitionId,
    /// The entry.
    pub entry: Entry,
    /// Why it could not be settled.
    pub reason: String,
    /// The entry of the same partition that it has to wait for, if it was not refused itself.
    pub waits_for: Option<Seq>,
    /// When it was refused, or when it was decided if it waits.
    pub at: Timestamp,
}

/// How many entries are set aside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuarantineCount {
    /// Those that were refused.
    pub refused: u64,
    /// Those that wait for one of these.
    pub waiting: u64,
}

/// The SQL book: the durable record that people query.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Binds an idempotency key to `id`, or tells what it was bound to. `scope` names the caller and the route;
    /// `fingerprint` stands for the body.
    async fn bind_key(
        &self,
        scope: &str,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        id: Uuid,
    ) -> Result<KeyBinding, LedgerError>;

    /// Puts money from outside into a user's account. The same `id` again changes nothing.
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError>;

    /// What a user has, one balance a currency.
    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError>;

    /// Enters a campaign, and moves a red packet's total from the sender into escrow, in one transaction. The same
    /// id again changes nothing.
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError>;

    /// A campaign, if the ledger has it.
    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError>;

    /// Campaigns that were entered but not yet opened in an engine.
    async fn drafts(&self) -> Result<Vec<Setup>, LedgerError>;

    /// Up to `limit` settled grants of a campaign with numbers above `after`.
    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError>;

    /// The position up to which a partition is settled; 0 for one of which nothing is.
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// The positions of all partitions of which something is settled, in the order of their numbers.
    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError>;

    /// Waits until a partition is settled up to `seq`, at most `wait_max`; tells whether it is.
    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError>;

    /// Carries entries into the books, in one transaction with the new position. Entries that are settled already
    /// change nothing. Returns the position afterwards.
    ///
    /// Partitions are settled independently of each other, also where a campaign is spread over several: what a part
    /// says of itself counts for that part, and what is left in escrow goes home when the last part has closed and all
    /// units are accounted for.
    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError>;

    /// Keeps the entry right behind the position with the reason why it cannot be settled, and moves the position past
    /// it, in one transaction. From there on [`Ledger::settle`] sets aside by itself what has to wait for it (see
    /// [`quarantine`](crate::quarantine)). At or before the position nothing changes. Returns the position afterwards.
    async fn quarantine(
        &self,
        _partition: PartitionId,
        _entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        // A ledger that sets nothing aside refuses for the same reason again.
        let reason = reason.to_owned();
        Err(LedgerError::Damaged { reason })
    }

    /// How many entries of a partition are set aside.
    async fn count_quarantined(
        &self,
        _partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError> {
        Ok(QuarantineCount::default())
    }

    /// Up to `limit` entries that are set aside, by partition and place, behind `after`.
    async fn list_quarantined(
        &self,
        _after: Option<(PartitionId, Seq)>,
        _limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError> {
        Ok(Vec::new())
    }

    /// Settles an entry that is set aside; false if there is none. It stays where it is if it is still refused, or has
    /// to wait for another one: that is the error.
    async fn redrive(&self, _partition: PartitionId, _seq: Seq) -> Result<bool, LedgerError> {
        Ok(false)
    }
}
