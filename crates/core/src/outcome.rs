//! Outcomes of claims.

use crate::{
    id::{CampaignId, OrderId},
    order::OrderState,
    time::Timestamp,
};

/// A granted claim: a share of a red packet, or units of a flash sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Campaign of the grant.
    pub campaign: CampaignId,
    /// Number of the grant in its campaign, unique and from 1. It has no gaps on one partition. If a campaign has
    /// shards, each shard numbers its own grants, so numbers may be missing.
    pub number: u32,
    /// Units granted, without cancelled units of an order; 1 for a share.
    pub quantity: u32,
    /// Minor units of the campaign's currency: the share's money, or the price of the order.
    pub amount_minor: i64,
    /// Time of the decision.
    pub granted_at: Timestamp,
    /// State of the order; `None` for a share.
    pub order: Option<OrderTerms>,
}

/// Payment state of a sale's grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderTerms {
    /// State of the order.
    pub state: OrderState,
    /// Time at which the hold ends, if the order is not paid by then. It has no meaning for an order that costs
    /// nothing.
    pub hold_until: Timestamp,
    /// Milliseconds by which the seller extended the hold, included in `hold_until`; 0 if it was not extended.
    pub extension_ms: i64,
    /// Number of payments with a refund due: each one that did not pay the order, and the one that paid an order with
    /// returned units, unless it costs nothing.
    pub refunds_due: u32,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned_quantity: u32,
    /// Units that were cancelled while the order was held. The grant's units and amount are without them.
    pub cancelled_quantity: u32,
}

impl Grant {
    /// The order's id; meaningful for sales.
    pub fn order_id(&self) -> OrderId {
        OrderId {
            campaign: self.campaign,
            number: self.number,
        }
    }
}

/// Outcome of a claim: exactly one of these. The variants are in order of precedence: if several apply, the first one
/// is the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The campaign does not exist, or is of another kind than the claim expects.
    UnknownCampaign,
    /// The claim was granted before, with this grant.
    AlreadyGranted(Grant),
    /// An operator paused the campaign.
    Paused,
    /// The window has not started.
    NotStarted {
        /// Start of the window.
        starts_at: Timestamp,
    },
    /// The window is over, or the campaign was closed.
    Ended,
    /// The user would exceed the limit of the campaign.
    LimitReached {
        /// Units that a user may have.
        limit: u32,
        /// Units that this user has.
        held: u32,
    },
    /// Fewer units remain than the claim requests.
    SoldOut {
        /// Remaining units.
        remaining: u64,
    },
    /// The claim is granted now.
    Granted(Grant),
}

impl Outcome {
    /// Names of all outcomes, in order of precedence.
    pub const NAMES: [&'static str; 8] = [
        "unknown_campaign",
        "already_granted",
        "paused",
        "not_started",
        "ended",
        "limit_reached",
        "sold_out",
        "granted",
    ];

    /// Name of the outcome, as in the API, the metrics and the log.
    pub fn name(&self) -> &'static str {
        Self::NAMES[self.precedence()]
    }

    /// Position in the order of precedence, from 0.
    pub fn precedence(&self) -> usize {
        match self {
            Self::UnknownCampaign => 0,
            Self::AlreadyGranted(_) => 1,
            Self::Paused => 2,
            Self::NotStarted { .. } => 3,
            Self::Ended => 4,
            Self::LimitReached { .. } => 5,
            Self::SoldOut { .. } => 6,
            Self::Granted(_) => 7,
        }
    }

    /// Grant of the user, whether made now or before.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Granted(grant) | Self::AlreadyGranted(grant) => Some(grant),
            _ => None,
        }
    }
}
