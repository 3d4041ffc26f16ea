//! Stores of the ledger: one trait for each of its uses. [`Ledger`](super::Ledger) combines them.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, ActionQuery, RepairAttempt, TimeRange};
use crate::{
    book::Setup,
    campaign::{Campaign, CampaignKind, Details, DetailsChange, Phase, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, PaymentRef, ProductId, UserId},
    money::{Currency, Money},
    order::OrderState,
    time::Timestamp,
};

/// Error of a ledger call. Nothing changed, except perhaps after [`LedgerError::Uncertain`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The account holds less than the requested amount.
    #[error("the account holds {held}, and {needed} is needed")]
    InsufficientFunds {
        /// Balance of the account.
        held: Money,
        /// Amount that the change needs.
        needed: Money,
    },
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used before, for a different request")]
    KeyReused,
    /// The reference already names another payout.
    #[error("this reference was used before, for a different payment")]
    ReferenceUsed,
    /// Another campaign has the id that the creator chose.
    #[error("another campaign has this id")]
    IdUsed,
    /// Another object of the same kind and owner has the reference, which is unique for both.
    #[error("{by} has this reference")]
    ReferenceTaken {
        /// Id of the other object.
        by: String,
    },
    /// A refund exceeds the refund due.
    #[error("{owed} is due for the order, and {asked} was requested")]
    RefundExceedsDue {
        /// Refund that is still due.
        owed: Money,
        /// Requested amount.
        asked: Money,
    },
    /// The user has no such deposit.
    #[error("the user has no such deposit")]
    UnknownDeposit,
    /// The order has no refund with this reference.
    #[error("the order has no refund with this reference")]
    UnknownRefund,
    /// A transfer to the user who has the money.
    #[error("a transfer is from one user to another")]
    SameUser,
    /// A reversal exceeds the rest of the deposit.
    #[error("{left} of the deposit is left, and {asked} was requested")]
    DepositExceeded {
        /// Part of the deposit that is not reversed yet.
        left: Money,
        /// Requested amount.
        asked: Money,
    },
    /// An amount is below 1 or above [`AMOUNT_MINOR_MAX`](crate::money::AMOUNT_MINOR_MAX).
    #[error("an amount is 1 to {} minor units", crate::money::AMOUNT_MINOR_MAX)]
    AmountOutOfRange,
    /// A sum exceeds 64 bits.
    #[error("the account cannot hold that much")]
    Overflow,
    /// The database, the log or the transport of its entries did not answer, or refused the call.
    #[error("not available: {reason}")]
    Unavailable {
        /// Failed component and cause, for the operator.
        reason: String,
    },
    /// The commit failed, and may have taken effect.
    #[error("commit result of the ledger unknown: {reason}")]
    Uncertain {
        /// Cause, for the operator.
        reason: String,
    },
    /// A failover or a restart removed entries from the log. Nothing of the log may be settled until it is repaired.
    #[error("the log has lost entries and now ends at {head}")]
    LogLost {
        /// Last entry that the log has now.
        head: Seq,
    },
    /// The log no longer has entries that the ledger lacks. Either the ledger was restored from an older state than the
    /// log's retention covers, or unsettled entries were deleted.
    #[error("entries {first} to {last} are gone from the log: run `qiang reconcile --repair`")]
    LogGone {
        /// First missing entry.
        first: Seq,
        /// Last missing entry.
        last: Seq,
    },
    /// Another process has claimed a later attempt at the repair of a partition.
    #[error(
        "this attempt to repair partition {partition} is over: another process has taken over the repair"
    )]
    StaleRepairAttempt {
        /// The partition.
        partition: u16,
    },
    /// The database contradicts itself.
    #[error("the ledger is damaged: {reason}")]
    Damaged {
        /// Contradiction that was found.
        reason: String,
    },
}

impl LedgerError {
    /// Builds [`LedgerError::Unavailable`] with this reason.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Unavailable { reason }
    }

    /// Builds [`LedgerError::Uncertain`] with this reason.
    pub fn uncertain(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Uncertain { reason }
    }

    /// Builds [`LedgerError::Damaged`] with this reason.
    pub fn damaged(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Damaged { reason }
    }
}

/// Balance of a user in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Money that the user can spend.
    pub available: Money,
    /// Refunds due: payments that did not pay their orders, and prices of returned orders.
    pub refunds_due_minor: i64,
}

/// A campaign's row in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignRecord {
    /// The campaign, with the terms of `terms_revision`.
    pub campaign: Campaign,
    /// Settled phase; the engine may be ahead. A campaign on several partitions is a draft until all its shards have
    /// opened. It is paused while a shard that has not ended is paused, ended when all shards have ended, and closed
    /// when all are closed.
    pub phase: Phase,
    /// Settled units that users have.
    pub granted: u64,
    /// Units returned at the close.
    pub returned: u64,
    /// Minor units refunded at the close.
    pub refunded_minor: i64,
    /// Entry of the last settled change of a sale's terms, which `campaign` includes; 0 if there was none.
    pub terms_revision: Seq,
    /// Start at its creation; a sale's start may have changed since. Engines count instants from it.
    pub first_start: Timestamp,
    /// Details that users see beside the title.
    pub details: Details,
    /// Time of its archiving; `None` if it is not archived. Lists show archived campaigns only on request.
    pub archived_at: Option<Timestamp>,
    /// Time of the last settled change of phase, stock, terms or details, or of the creation. Grants do not change it.
    pub updated_at: Timestamp,
}

impl CampaignRecord {
    /// A campaign's row directly after its creation.
    #[must_use]
    pub fn created(campaign: Campaign, details: Details) -> Self {
        Self {
            first_start: campaign.window.starts_at(),
            updated_at: campaign.created_at,
            campaign,
            phase: Phase::Draft,
            granted: 0,
            returned: 0,
            refunded_minor: 0,
            terms_revision: 0,
            details,
            archived_at: None,
        }
    }

    /// Settled counters at an instant; the engine may be ahead. Amounts in minor units are 0.
    #[must_use]
    pub fn settled_tally(&self, now: Timestamp) -> Tally {
        let supply = self.campaign.supply();
        Tally {
            phase: self.phase.at(self.campaign.window, now),
            supply,
            granted: self.granted,
            // For a short time, settled grants of a sale with shards may exceed its supply: see the ledger's tables.
            remaining: supply.saturating_sub(self.granted + self.returned),
            returned: self.returned,
            ..Tally::default()
        }
    }
}

/// Filter, order and first position of a page of campaigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignQuery {
    /// Kind of the campaigns. Only sales have products.
    pub kind: CampaignKind,
    /// Sender or seller; `None` for all.
    pub owner: Option<UserId>,
    /// Product of which to list the rounds in the order of their starts. If `None`, campaigns are in the order of their
    /// ids.
    pub product_id: Option<ProductId>,
    /// Lists the newest ids first. Rounds of a product ignore it.
    pub newest_first: bool,
    /// Phase at `now`, as settled.
    pub phase: Option<Phase>,
    /// Current time, which decides `phase`.
    pub now: Timestamp,
    /// Times of the creation.
    pub created: TimeRange,
    /// Includes archived campaigns.
    pub archived: bool,
    /// Campaign after which the page begins, in the order of the list.
    pub after: Option<CampaignId>,
    /// Id before which the list ends, in its order. Rounds of a product ignore it.
    pub until: Option<CampaignId>,
    /// Maximum number of campaigns.
    pub limit: u32,
}

/// One settled grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRecord {
    /// Its number in its campaign.
    pub number: u32,
    /// User who has it.
    pub user: UserId,
    /// Units.
    pub quantity: u32,
    /// Minor units.
    pub amount_minor: i64,
    /// Time of the decision.
    pub granted_at: Timestamp,
    /// Settled state of the order. A share is always held.
    pub state: OrderState,
    /// Units returned after the order was paid; all units if the order is returned.
    pub returned: u32,
    /// Units of an order that were cancelled while it was held. Units and amount are without them.
    pub cancelled: u32,
}

/// Times of one settled grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantTimes {
    /// Its number in its campaign.
    pub number: u32,
    /// Time of the decision.
    pub granted_at: Timestamp,
    /// Time of the payment that paid the order; `None` for a share, and if no payment did.
    pub paid_at: Option<Timestamp>,
}

/// An entry in quarantine: it could not be settled, and is kept until it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedEntry {
    /// The partition.
    pub partition: PartitionId,
    /// The entry.
    pub entry: Entry,
    /// Reason why it could not be settled.
    pub reason: String,
    /// Entry of the same partition that it must wait for; `None` if the ledger refused this entry itself.
    pub waits_for: Option<Seq>,
    /// Time of the refusal, or of the decision if it waits.
    pub at: Timestamp,
    /// Whether it is a grant with a requested discard.
    pub is_discarded: bool,
}

/// A quarantined grant with a requested discard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discard {
    /// The partition.
    pub partition: PartitionId,
    /// The grant's entry.
    pub entry: Entry,
}

/// Number of entries in quarantine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuarantineCount {
    /// Entries that the ledger refused.
    pub refused: u64,
    /// Entries that wait for a refused one.
    pub waiting: u64,
}

/// Store of users' accounts.
#[async_trait]
pub trait AccountStore: Send + Sync + 'static {
    /// Deposits money from outside into a user's account, and records the action. A repeated `id` changes nothing.
    async fn deposit_by(
        &self,
        id: Uuid,
        user: &UserId,
        amount: Money,
        by: Option<&Action>,
    ) -> Result<(), LedgerError>;

    /// [`AccountStore::deposit_by`] without an action.
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        self.deposit_by(id, user, amount, None).await
    }

    /// Balances of a user, one per currency.
    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError>;

    /// Settled total of all accounts of a currency, in minor units. It equals the money that came from outside, less
    /// the money paid out.
    async fn money_in(&self, currency: Currency) -> Result<i64, LedgerError>;
}

/// Store of recorded actions.
///
/// A change of the ledger and its action are written in one transaction. An action that an engine decides is recorded
/// before the decision, and deleted if the engine refuses it.
#[async_trait]
pub trait ActionStore: Send + Sync + 'static {
    /// Records an action.
    async fn record(&self, action: &Action) -> Result<(), LedgerError>;

    /// Deletes an action that an engine refused, because it did not happen. An unknown action changes nothing.
    async fn strike(&self, action: Uuid) -> Result<(), LedgerError>;

    /// Up to `limit` actions on a subject in the order of their ids, after `after`.
    async fn actions(
        &self,
        subject: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError>;

    /// Records a refused report of a payment.
    async fn record_refusal(
        &self,
        action: &Action,
        payment: &PaymentRef,
    ) -> Result<(), LedgerError>;

    /// The newest refused report of a payment, if there is one.
    async fn refusal_of(&self, payment: &PaymentRef) -> Result<Option<Action>, LedgerError>;

    /// One page of the actions on all subjects.
    async fn action_log(&self, query: &ActionQuery) -> Result<Vec<Action>, LedgerError>;
}

/// Store of campaigns and their settled grants.
#[async_trait]
pub trait CampaignStore: Send + Sync + 'static {
    /// Creates a campaign with its details and its audience; `None` admits all users. The ledger does not interpret the
    /// text of the audience.
    ///
    /// The same transaction moves a red packet's total from the sender into escrow and records the action. A repeated
    /// id changes nothing.
    async fn create_by(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
        by: Option<&Action>,
    ) -> Result<(), LedgerError>;

    /// [`CampaignStore::create_by`] without an action.
    async fn create_with(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
    ) -> Result<(), LedgerError> {
        self.create_by(setup, details, audience, None).await
    }

    /// [`CampaignStore::create_with`] without details, for all users.
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        self.create_with(setup, &Details::default(), None).await
    }

    /// Changes a campaign's details, and records the action. An unknown campaign changes nothing. If the change has a
    /// key, `made` is the id to which it was bound: see [`KeyStore::is_change_made`](super::KeyStore::is_change_made).
    async fn describe(
        &self,
        id: CampaignId,
        change: &DetailsChange,
        by: Option<&Action>,
        made: Option<Uuid>,
    ) -> Result<(), LedgerError>;

    /// [`CampaignStore::describe`] if title and details are still the expected ones. Returns whether they are;
    /// otherwise nothing changes.
    async fn describe_if(
        &self,
        id: CampaignId,
        expected: (&str, &Details),
        change: &DetailsChange,
        by: (Option<&Action>, Option<Uuid>),
    ) -> Result<bool, LedgerError>;

    /// Archives a closed campaign, and records the action. Returns whether it is archived now. A repeated call changes
    /// nothing.
    async fn archive(&self, id: CampaignId, by: Option<&Action>) -> Result<bool, LedgerError>;

    /// A page of campaigns.
    async fn list(&self, query: &CampaignQuery) -> Result<Vec<CampaignRecord>, LedgerError>;

    /// A campaign, if the ledger has it.
    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError>;

    /// Up to `limit` campaigns that were created and that no engine has opened, as settled. They are in the order of
    /// their creation, after `after`.
    async fn drafts(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError>;

    /// A campaign with its shares, in the form in which an engine opens it, if the ledger has it.
    async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError>;

    /// Up to `limit` red packets that are not closed, and whose shares are all claimed, as settled. They are in the
    /// order of their creation, after `after`.
    async fn claimed_packets(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError>;

    /// Up to `limit` settled grants of a campaign with numbers above `after`.
    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError>;

    /// Times of the settled grants with these numbers, which ascend. Each is read by its key. Numbers without a settled
    /// grant are left out.
    async fn grant_times(
        &self,
        id: CampaignId,
        numbers: Vec<u32>,
    ) -> Result<Vec<GrantTimes>, LedgerError>;
}

/// Store of settled positions, and of the entries that advance them.
#[async_trait]
pub trait SettlementStore: Send + Sync + 'static {
    /// Position up to which a partition is settled; 0 if nothing of it is.
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// Positions of all partitions with settled entries, by partition number.
    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError>;

    /// Waits until a partition is settled up to `seq`, at most `wait_max`; returns whether it is.
    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError>;

    /// Settles entries and advances the position, in one transaction. Entries that are already settled change nothing.
    /// Returns the position afterwards.
    ///
    /// Each partition is settled independently, even if a campaign has shards on several. An entry of a shard counts
    /// for that shard. The rest in escrow is refunded when the last shard has closed and all units are accounted for.
    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError>;

    /// Settles substitutes for the log's missing entries between `position` and `upto`, and sets the position to
    /// `upto`. Substitutes contain the known facts of those entries; their positions ascend within the range. If the
    /// current position is not `position`, nothing changes. Returns the position afterwards.
    ///
    /// # Errors
    /// [`LedgerError::StaleRepairAttempt`] unless the attempt is the partition's last one.
    async fn settle_past(
        &self,
        attempt: &RepairAttempt,
        position: Seq,
        entries: &[Entry],
        upto: Seq,
    ) -> Result<Seq, LedgerError>;
}

/// Store of quarantined entries: entries that the ledger refused, and entries that wait for them (see
/// [`quarantine`](crate::quarantine)).
#[async_trait]
pub trait QuarantineStore: Send + Sync + 'static {
    /// Stores the entry right after the position together with the reason why it cannot be settled, and advances the
    /// position by it, in one transaction. From then on [`SettlementStore::settle`] also quarantines the entries that
    /// must wait for it. An entry at or before the position changes nothing. Returns the position afterwards.
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError>;

    /// Whether the grant of a campaign with this number is in quarantine. Then its entry is at or before the position,
    /// and the ledger does not have the grant.
    async fn is_grant_quarantined(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        number: u32,
    ) -> Result<bool, LedgerError>;

    /// Number of a partition's entries in quarantine.
    async fn count_quarantined(
        &self,
        partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError>;

    /// Up to `limit` entries in quarantine, by partition and position, after `after`.
    async fn list_quarantined(
        &self,
        after: Option<(PartitionId, Seq)>,
        limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError>;

    /// Settles a quarantined entry; returns false if there is none.
    ///
    /// # Errors
    /// If the ledger still refuses the entry, or the entry must wait for another one. The entry then stays in
    /// quarantine.
    async fn redrive(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Records the request to discard a quarantined grant of a sale; returns false if it is not in quarantine. From
    /// then on [`QuarantineStore::discards`] lists it. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if it is not the grant of an order, was not refused itself, or the ledger lacks its
    /// campaign.
    async fn ask_discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Whether an entry was discarded.
    async fn is_discarded(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Up to `limit` grants with an unfinished discard, by partition and position.
    async fn discards(&self, limit: u32) -> Result<Vec<Discard>, LedgerError>;

    /// Discards a grant with all steps of its order, in one transaction. From then on no entry waits for them, and a
    /// refund is due for the order's payments. They stay in the table as discarded. Returns false, without a change,
    /// while the quarantined steps leave units with the order. A grant that is already discarded, or without a
    /// requested discard, does not change.
    async fn discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Ends a discard after all entries that waited for the grant were redriven. [`QuarantineStore::discards`] no
    /// longer lists it.
    async fn end_discard(&self, partition: PartitionId, seq: Seq) -> Result<(), LedgerError>;
}
