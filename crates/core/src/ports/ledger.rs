//! The ledger: one trait for each user of it. [`Ledger`](super::Ledger) is all of them.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, RepairAttempt};
use crate::{
    book::Setup,
    campaign::{Campaign, CampaignKind, Details, DetailsChange, Phase, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, ProductId, UserId},
    money::{Currency, Money},
    order::OrderState,
    time::Timestamp,
};

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
    /// The reference stands for another payout.
    #[error("this reference was used before, for a different payment")]
    ReferenceUsed,
    /// The campaign's id, which its creator chose, is another campaign's.
    #[error("another campaign has this id")]
    IdUsed,
    /// A refund of more than is owed.
    #[error("{owed} is owed for the order, and {asked} is asked for")]
    NotOwed {
        /// What is still owed.
        owed: Money,
        /// What was asked for.
        asked: Money,
    },
    /// The user has no such deposit.
    #[error("the user has no such deposit")]
    UnknownDeposit,
    /// A reversal of more than is left of the deposit.
    #[error("{left} of the deposit is left, and {asked} is asked for")]
    DepositExceeded {
        /// What was not reversed yet.
        left: Money,
        /// What was asked for.
        asked: Money,
    },
    /// An amount that is not above 0, or larger than [`AMOUNT_MINOR_MAX`](crate::money::AMOUNT_MINOR_MAX).
    #[error("an amount is 1 to {} minor units", crate::money::AMOUNT_MINOR_MAX)]
    AmountOutOfRange,
    /// A sum left 64 bits.
    #[error("the account cannot hold that much")]
    Overflow,
    /// The database did not answer, or refused; or the log did, or the transport that brings its entries.
    #[error("not available: {reason}")]
    Unavailable {
        /// What failed and how, for the operator.
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
    /// The log no longer has what the ledger lacks: the ledger was set back further than the log keeps what is settled,
    /// or unsettled entries were deleted.
    #[error("entries {first} to {last} are gone from the log: run `qiang reconcile --repair`")]
    LogGone {
        /// The first entry that is gone.
        first: Seq,
        /// The last one.
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
    /// What is in the database contradicts itself.
    #[error("the ledger is damaged: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
}

impl LedgerError {
    /// What was asked did not answer, or refused, for this reason.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Unavailable { reason }
    }

    /// The commit's fate is unknown, for this reason.
    pub fn uncertain(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Uncertain { reason }
    }

    /// What is stored contradicts itself, for this reason.
    pub fn damaged(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Damaged { reason }
    }
}

/// What an account holds in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// What can be spent.
    pub available: Money,
    /// Payments owed back: they did not pay their orders. Prices of returned orders, too.
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
    pub granted: u64,
    /// Units returned at the close.
    pub returned: u64,
    /// Minor units refunded at the close.
    pub refunded_minor: i64,
    /// The last settled change of a sale's terms, which `campaign` has; 0 if there was none.
    pub terms_revision: Seq,
    /// The start that it was created with; a sale's start may have been changed since. Engines count instants from it.
    pub first_start: Timestamp,
    /// What people see beside the title.
    pub details: Details,
    /// Since when lists do not show it unless asked; none for a campaign that is not archived.
    pub archived_at: Option<Timestamp>,
    /// Time of the last change of phase, stock, terms or details, as settled; the creation if there was none. Grants
    /// do not move it.
    pub updated_at: Timestamp,
}

impl CampaignRecord {
    /// A campaign as it is in a ledger that has just entered it.
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

    /// The numbers at an instant, as settled: the engine may be ahead. Those in minor units are 0.
    #[must_use]
    pub fn settled_tally(&self, now: Timestamp) -> Tally {
        let supply = self.campaign.supply();
        Tally {
            phase: self.phase.at(self.campaign.window, now),
            supply,
            granted: self.granted,
            // Of a spread sale more may be granted for a while than there are: see the ledger's tables.
            remaining: supply.saturating_sub(self.granted + self.returned),
            returned: self.returned,
            ..Tally::default()
        }
    }
}

/// Which campaigns to list, and where the page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignQuery {
    /// Of this kind. Only sales have products.
    pub kind: CampaignKind,
    /// Of this sender or seller; of all if none.
    pub owner: Option<UserId>,
    /// Rounds of this product, in the order in which they open; otherwise campaigns are in the order of their ids.
    pub product_id: Option<ProductId>,
    /// By their ids backwards: the newest first. Rounds of a product do not come so.
    pub newest_first: bool,
    /// In this phase, as settled and by this time.
    pub phase: Option<Phase>,
    /// See `phase`.
    pub now: Timestamp,
    /// Archived ones as well.
    pub archived: bool,
    /// Behind this one, in the order of the list.
    pub after: Option<CampaignId>,
    /// At most so many.
    pub limit: u32,
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
    /// Where the order stands, as settled. A share is always held.
    pub state: OrderState,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned: u32,
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
    /// Whether it is a grant that is being discarded.
    pub is_discarded: bool,
}

/// A quarantined grant that is being discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discard {
    /// The partition.
    pub partition: PartitionId,
    /// The grant's entry.
    pub entry: Entry,
}

/// How many entries are in quarantine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuarantineCount {
    /// Those that were refused.
    pub refused: u64,
    /// Those that wait for one of these.
    pub waiting: u64,
}

/// Users' money.
#[async_trait]
pub trait AccountStore: Send + Sync + 'static {
    /// Puts money from outside into a user's account, and writes the action down. The same `id` again changes nothing.
    async fn deposit_by(
        &self,
        id: Uuid,
        user: &UserId,
        amount: Money,
        by: Option<&Action>,
    ) -> Result<(), LedgerError>;

    /// The same without an action.
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        self.deposit_by(id, user, amount, None).await
    }

    /// What a user has, one balance a currency.
    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError>;

    /// What all accounts of a currency have together, in minor units, as settled: the outside owes it.
    async fn money_in(&self, currency: Currency) -> Result<i64, LedgerError>;
}

/// The record of actions. What the ledger itself changes is written with the change, in one transaction; what an engine
/// decides is written before the engine is asked, and struck if the engine refuses it.
#[async_trait]
pub trait ActionStore: Send + Sync + 'static {
    /// Writes an action down.
    async fn record(&self, action: &Action) -> Result<(), LedgerError>;

    /// Strikes an action that an engine refused: it did not happen. One that is not there changes nothing.
    async fn strike(&self, action: Uuid) -> Result<(), LedgerError>;

    /// Up to `limit` actions on a subject in the order of their ids, behind `after`.
    async fn actions(
        &self,
        subject: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError>;
}

/// Campaigns, and what is settled of them.
#[async_trait]
pub trait CampaignStore: Send + Sync + 'static {
    /// Enters a campaign with its details and, if not everybody may, who may take part in it: a text that means nothing
    /// to the ledger. A red packet's total moves from the sender into escrow, and the action is written down, in the
    /// same transaction. The same id again changes nothing.
    async fn create_by(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
        by: Option<&Action>,
    ) -> Result<(), LedgerError>;

    /// The same without an action.
    async fn create_with(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
    ) -> Result<(), LedgerError> {
        self.create_by(setup, details, audience, None).await
    }

    /// The same without details, and for everybody.
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        self.create_with(setup, &Details::default(), None).await
    }

    /// Changes what people see of a campaign, and writes the action down; nothing if there is no such campaign.
    async fn describe(
        &self,
        id: CampaignId,
        change: &DetailsChange,
        by: Option<&Action>,
    ) -> Result<(), LedgerError>;

    /// Archives a campaign that is closed, and writes the action down; tells whether it is archived now. Again changes
    /// nothing.
    async fn archive(&self, id: CampaignId, by: Option<&Action>) -> Result<bool, LedgerError>;

    /// A page of campaigns.
    async fn list(&self, query: &CampaignQuery) -> Result<Vec<CampaignRecord>, LedgerError>;

    /// A campaign, if the ledger has it.
    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError>;

    /// Up to `limit` campaigns that were entered and that no engine has opened as far as is settled, in the order of
    /// their creation: the first ones, or those behind this one.
    async fn drafts(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError>;

    /// A campaign with its shares, as an engine opens it, if the ledger has it.
    async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError>;

    /// Up to `limit` packets that are not closed and whose shares are all settled as claimed, in the order of their
    /// creation: the first ones, or those behind this one.
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
}

/// The positions of partitions, and the entries that move them.
#[async_trait]
pub trait SettlementStore: Send + Sync + 'static {
    /// The position up to which a partition is settled; 0 for one of which nothing is.
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// The positions of all partitions of which something is settled, in the order of their numbers.
    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError>;

    /// Waits until a partition is settled up to `seq`, at most `wait_max`; returns whether it is.
    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError>;

    /// Settles entries, in one transaction with the new position. Entries that are settled already change nothing.
    /// Returns the position afterwards.
    ///
    /// Partitions are settled independently of each other, also where a campaign is spread over several: what a part
    /// says of itself counts for that part, and what is left in escrow is refunded when the last part has closed and
    /// all units are accounted for.
    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError>;

    /// Settles entries that stand in for those between `position` and `upto` that are gone from the log: what somebody
    /// knows of them, with places in between that ascend. Then the position is `upto`. If the position is not
    /// `position` any more, nothing changes. Returns the position afterwards, or [`LedgerError::StaleRepairAttempt`]
    /// unless the attempt is the partition's last one.
    async fn settle_past(
        &self,
        attempt: &RepairAttempt,
        position: Seq,
        entries: &[Entry],
        upto: Seq,
    ) -> Result<Seq, LedgerError>;
}

/// Entries in quarantine: those that the ledger refused, and those that wait for them (see
/// [`quarantine`](crate::quarantine)).
#[async_trait]
pub trait QuarantineStore: Send + Sync + 'static {
    /// Keeps the entry right behind the position with the reason why it cannot be settled, and moves the position past
    /// it, in one transaction. From then on [`SettlementStore::settle`] quarantines by itself the entries that have to
    /// wait for it. At or before the position nothing changes. Returns the position afterwards.
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError>;

    /// Whether the grant of a campaign with this number is in quarantine: its place is behind the position, and the
    /// ledger does not have it.
    async fn is_grant_quarantined(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        number: u32,
    ) -> Result<bool, LedgerError>;

    /// How many entries of a partition are in quarantine.
    async fn count_quarantined(
        &self,
        partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError>;

    /// Up to `limit` entries in quarantine, by partition and place, behind `after`.
    async fn list_quarantined(
        &self,
        after: Option<(PartitionId, Seq)>,
        limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError>;

    /// Settles an entry that is in quarantine; false if there is none. It stays there if it is still refused, or has
    /// to wait for another one: that is the error.
    async fn redrive(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Writes down that a quarantined grant of a sale is to be discarded; false if it is not in quarantine. From then
    /// on [`QuarantineStore::discards`] names it. Asked again, it changes nothing.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if it is not the grant of an order, was not refused itself, or the ledger does not have
    /// its campaign.
    async fn ask_discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// Up to `limit` grants that are being discarded, by partition and place.
    async fn discards(&self, limit: u32) -> Result<Vec<Discard>, LedgerError>;

    /// Takes a grant whose units are back, with every step of its order, out of the way of what waits for them, in one
    /// transaction: nothing waits for them any more, and what was paid is owed to the buyer. They stay in the table as
    /// discarded. False while the last step in quarantine leaves the units with the order. One that is discarded, or of
    /// which nobody asked it, stays as it is.
    async fn discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError>;

    /// What waited for a discarded grant has been redriven: [`QuarantineStore::discards`] names it no more.
    async fn end_discard(&self, partition: PartitionId, seq: Seq) -> Result<(), LedgerError>;
}
