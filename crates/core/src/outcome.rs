//! What a claim ends in.

use crate::{
    id::{CampaignId, OrderId},
    order::OrderState,
    time::Timestamp,
};

/// A success: a share of a red packet, or units of a flash sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The campaign that granted.
    pub campaign: CampaignId,
    /// The grant's number in its campaign, unique there and from 1. Without gaps in one partition; the parts of a
    /// campaign that is spread over several each number their own grants, so that numbers of others may be missing.
    pub number: u32,
    /// Units granted; 1 for a share.
    pub quantity: u32,
    /// Minor units of the campaign's currency: the share's money, or the price of the order.
    pub amount_minor: i64,
    /// When it was decided.
    pub granted_at: Timestamp,
    /// For a sale: the order's state.
    pub order: Option<Order>,
}

/// The payment side of a sale's grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Where the order stands.
    pub state: OrderState,
    /// When the hold ends, if it has not been paid by then. It says nothing of an order that costs nothing.
    pub hold_until: Timestamp,
    /// Payments that are owed back: each one that did not pay the order, with the money that arrived, and the one that
    /// paid an order of which units were returned, unless it costs nothing.
    pub refunds_due: u32,
    /// Units that were returned after the order was paid; all units of an order that is returned.
    pub returned_quantity: u32,
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

/// What a claim ends in: exactly one of these. The variants stand in order of precedence: where several
/// would be true, the first is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No such campaign, or not of the kind that was asked for.
    UnknownCampaign,
    /// The claim was granted before; this is that grant.
    AlreadyGranted(Grant),
    /// An operator stopped the campaign for now.
    Paused,
    /// The window has not opened.
    NotStarted {
        /// When it opens.
        starts_at: Timestamp,
    },
    /// The window is over, or the campaign was closed.
    Ended,
    /// The user would have more than the campaign allows.
    LimitReached {
        /// Units a user may have.
        limit: u32,
        /// Units this user has.
        held: u32,
    },
    /// Fewer units are left than were asked for.
    SoldOut {
        /// Units left.
        remaining: u64,
    },
    /// Granted now.
    Granted(Grant),
}

impl Outcome {
    /// Every outcome's name, in order of precedence.
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

    /// The word for it, as in the API, the metrics and the log.
    pub fn name(&self) -> &'static str {
        Self::NAMES[self.precedence()]
    }

    /// Its place in the order of precedence, from 0.
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

    /// The grant that the user has, whether made now or before.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Granted(grant) | Self::AlreadyGranted(grant) => Some(grant),
            _ => None,
        }
    }
}
