//! Ledger reads of reconciliation and repair.

use async_trait::async_trait;

use super::{CampaignRecord, LedgerError};
use crate::{
    book::{CampaignCounters, FormerGrant, PaymentOutcome},
    campaign::{Phase, Sale},
    event::PartitionId,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, PartKind, ReturnPart},
    payment::{PaymentState, ReceivedMoney},
    reconcile::{CampaignFacts, OwnerReturn},
    time::Timestamp,
};

impl CampaignRecord {
    /// Settled phase and counters of the whole campaign.
    #[must_use]
    pub fn counters(&self) -> CampaignCounters {
        CampaignCounters {
            phase: self.phase,
            granted: self.granted,
            returned: self.returned,
            refunded_minor: self.refunded_minor,
        }
    }

    /// The facts of the campaign's row, with the phase of the whole campaign.
    #[must_use]
    pub fn facts(&self) -> CampaignFacts {
        let campaign = &self.campaign;
        let (sale, packet) = (campaign.rules.sale(), campaign.rules.red_packet());
        CampaignFacts {
            kind: campaign.kind(),
            phase: self.phase,
            supply: Some(campaign.supply()),
            total_minor: packet.map(|packet| packet.split.total()),
            window: campaign.window,
            per_user_limit: campaign.per_user_limit(),
            unit_price_minor: sale.map(|sale| sale.unit_price().minor),
            hold_ms: sale.map_or(0, Sale::hold_ms),
            admission: sale.map(|sale| sale.admission().into()),
            ack: campaign.ack,
            terms_revision: self.terms_revision,
        }
    }
}

/// A campaign, or the shard of it on a partition, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledPart {
    /// The campaign.
    pub record: CampaignRecord,
    /// Number of partitions with a shard of it; 1 if it has no shards, or if no shard is settled as open.
    pub parts: u16,
    /// Phase of the shard. For a campaign without shards it is the campaign's phase; for a shard that is not settled as
    /// open, [`Phase::Draft`].
    pub phase: Phase,
    /// Units and money returned to the owner; `None` if the shard is not settled as closed.
    pub closed: Option<OwnerReturn>,
}

/// A share or an order, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledRow {
    /// Its number.
    pub number: u32,
    /// Minor units; `None` for an unclaimed share of a lazy red packet.
    pub amount_minor: Option<i64>,
    /// User who has it, and the time of the grant; `None` for an unclaimed share.
    pub granted: Option<(UserId, Timestamp)>,
    /// Units.
    pub quantity: u32,
    /// State of an order; [`OrderState::Held`] for a share.
    pub state: OrderState,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned: u32,
    /// Units of an order that were cancelled while it was held. Units and amount are without them.
    pub cancelled: u32,
    /// Milliseconds by which the hold of an order was extended; 0 if it was not.
    pub extension_ms: i64,
    /// Key of the claim for an order, if it had one. `None` for a share, because a user has one share, independent of
    /// keys.
    pub key: Option<IdempotencyKey>,
}

impl SettledRow {
    /// The grant; `None` for an unclaimed share.
    #[must_use]
    pub fn former_grant(&self) -> Option<FormerGrant<'_>> {
        let (user, granted_at) = self.granted.as_ref()?;
        Some(FormerGrant {
            number: self.number,
            user,
            quantity: self.quantity,
            amount_minor: self.amount_minor?,
            granted_at: *granted_at,
            key: self.key.as_ref(),
            state: self.state,
            returned: self.returned,
            cancelled: self.cancelled,
            extension_ms: self.extension_ms,
        })
    }
}

/// A payment, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledPayment {
    /// The order's number.
    pub number: u32,
    /// The payment.
    pub payment: PaymentRef,
    /// Result of the payment.
    pub outcome: PaymentOutcome,
    /// Money that was received.
    pub received: ReceivedMoney,
}

impl SettledPayment {
    /// Its outcome and its money.
    #[must_use]
    pub fn state(&self) -> PaymentState {
        PaymentState {
            outcome: self.outcome,
            received: self.received,
        }
    }
}

/// Some units of an order that were restocked, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledReturn {
    /// The order's number.
    pub number: u32,
    /// Whether they were cancelled or returned.
    pub kind: PartKind,
    /// The units, and the key.
    pub part: ReturnPart,
}

/// Columns of a campaign's row that locate the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignOutline {
    /// Number of partitions with a shard of it, as settled; 1 if it has no shards.
    pub parts: u16,
    /// Whether some of its shards have not opened, as settled.
    pub is_draft: bool,
}

/// A campaign that may still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveCampaign {
    /// Its id.
    pub id: CampaignId,
    /// Its number of shards, and whether it is a draft. A row that cannot be read counts as a draft.
    pub outline: CampaignOutline,
}

/// Store that reconciliation and repair read.
#[async_trait]
pub trait ReconcileStore: Send + Sync + 'static {
    /// Up to `limit` campaigns that may still change, in the order of their ids, after `after`: campaigns that are not
    /// closed, and closed ones with a held order.
    ///
    /// The orders of a closed sale are searched until the newest campaign is 30 days younger than the end of the sale's
    /// last hold. So the cost depends on live and recent campaigns, not on all campaigns.
    async fn live_campaigns(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<LiveCampaign>, LedgerError>;

    /// The shard of a campaign on a partition, if the ledger has the campaign. For a campaign without shards, the
    /// partition is ignored.
    async fn settled_part(
        &self,
        id: CampaignId,
        partition: PartitionId,
    ) -> Result<Option<SettledPart>, LedgerError>;

    /// Outline of a campaign, if the ledger has the campaign. It is readable even if other columns of the row are not.
    async fn campaign_outline(
        &self,
        id: CampaignId,
    ) -> Result<Option<CampaignOutline>, LedgerError>;

    /// Up to `limit` shares or orders of a campaign with numbers above `after`, in their order, of all shards.
    async fn settled_rows(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<SettledRow>, LedgerError>;

    /// Shares or orders of a campaign that a user has or had, by number, of all shards. They are found by key.
    async fn settled_rows_of_user(
        &self,
        id: CampaignId,
        user: &UserId,
    ) -> Result<Vec<SettledRow>, LedgerError>;

    /// Highest number of a campaign's orders, of all shards; 0 if there are none.
    async fn last_order(&self, id: CampaignId) -> Result<u32, LedgerError>;

    /// Payments of a campaign's orders with numbers above `after`, up to and including `upto`.
    async fn settled_payments(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledPayment>, LedgerError>;

    /// Partial cancellations and returns of a campaign's orders with numbers above `after`, up to and including `upto`.
    async fn settled_returns(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledReturn>, LedgerError>;
}
