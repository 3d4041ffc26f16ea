//! What reconciliation and repair read of a ledger.

use async_trait::async_trait;

use super::{CampaignRecord, LedgerError};
use crate::{
    book::PaymentOutcome,
    campaign::{Phase, Sale},
    event::PartitionId,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::{OrderState, ReturnPart},
    payment::{PaymentState, Received},
    reconcile::{CampaignFacts, GoneBack},
    time::Timestamp,
};

impl CampaignRecord {
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

/// A campaign, or the part of one that a partition has, as it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledPart {
    /// The campaign.
    pub record: CampaignRecord,
    /// Over how many partitions it is spread; 1 if it is not, or if none of its parts is settled as open.
    pub parts: u16,
    /// Where the part stands; the campaign's phase if it is not spread, and [`Phase::Draft`] for a part that is not
    /// settled as open.
    pub phase: Phase,
    /// What has gone back to the owner; none where the part is not settled as closed.
    pub closed: Option<GoneBack>,
}

/// A share or an order as it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledRow {
    /// Its number.
    pub number: u32,
    /// Minor units; none for a share of a lazy packet that nobody has.
    pub amount_minor: Option<i64>,
    /// Who has it since when; none for a share that nobody has.
    pub granted: Option<(UserId, Timestamp)>,
    /// Units.
    pub quantity: u32,
    /// Where an order stands; [`OrderState::Held`] for a share.
    pub state: OrderState,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned: u32,
    /// The key of the claim for an order, if it had one. None for a share: a user has one, whatever the key.
    pub key: Option<IdempotencyKey>,
}

/// A payment as it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledPayment {
    /// The order's number.
    pub number: u32,
    /// The payment.
    pub payment: PaymentRef,
    /// What it came to.
    pub outcome: PaymentOutcome,
    /// The money that it brought.
    pub received: Received,
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

/// A return of some units of an order as it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledReturn {
    /// The order's number.
    pub number: u32,
    /// The units, and the key.
    pub part: ReturnPart,
}

/// The columns of a campaign's row that tell where the campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignOutline {
    /// Number of partitions that it is spread over, as far as that is settled; 1 if it is not spread.
    pub parts: u16,
    /// Whether not all of its parts have opened, as far as that is settled.
    pub is_draft: bool,
}

/// What reconciliation and repair read.
#[async_trait]
pub trait ReconcileStore: Send + Sync + 'static {
    /// Up to `limit` campaigns to which something may still happen, in the order of their ids, behind `after`: those
    /// that are not closed, and those with an order that is held. Orders of a closed sale are looked through for that
    /// until the newest campaign is 30 days younger than the end of the sale's last hold: what it costs follows from
    /// what is live and was live lately, and not from all that ever was.
    async fn live_campaigns(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError>;

    /// The part of a campaign that a partition has, if the ledger has the campaign. Where the campaign is not spread,
    /// the partition does not matter.
    async fn settled_part(
        &self,
        id: CampaignId,
        partition: PartitionId,
    ) -> Result<Option<SettledPart>, LedgerError>;

    /// The outline of a campaign, if the ledger has the campaign. It is read also if the ledger cannot read the other
    /// columns of the row.
    async fn campaign_outline(
        &self,
        id: CampaignId,
    ) -> Result<Option<CampaignOutline>, LedgerError>;

    /// Up to `limit` shares or orders of a campaign with numbers above `after`, in their order; those of all parts.
    async fn settled_rows(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<SettledRow>, LedgerError>;

    /// The highest number of a campaign's orders, of all parts; 0 where there are none.
    async fn last_order(&self, id: CampaignId) -> Result<u32, LedgerError>;

    /// The payments of a campaign's orders with numbers above `after` up to and with `upto`.
    async fn settled_payments(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledPayment>, LedgerError>;

    /// Returns of parts of a campaign's orders with numbers above `after` up to and with `upto`.
    async fn settled_returns(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledReturn>, LedgerError>;
}
