//! Rows of exports: flat, with decimals.

use std::collections::BTreeMap;

use qiang_client::{
    Account, Balance, Claim, Deposit, Order, PaymentRecord, RedPacket, Refund, Sale, Timestamp,
    Withdrawal,
};
use serde::Serialize;

use crate::amounts::decimal;

/// Metadata as the text of a JSON object; `None` if there is none.
fn object(metadata: &BTreeMap<String, String>) -> anyhow::Result<Option<String>> {
    match metadata.is_empty() {
        true => Ok(None),
        false => Ok(Some(serde_json::to_string(metadata)?)),
    }
}

/// Columns of `qiang import sales`, then numbers.
#[derive(Serialize)]
pub(super) struct ExportedSale {
    id: String,
    title: String,
    stock: u64,
    price: String,
    currency: String,
    starts_at: String,
    ends_at: String,
    per_user_limit: u32,
    hold_seconds: u32,
    seller: String,
    product_id: Option<String>,
    description: Option<String>,
    image_url: Option<String>,
    gallery: Option<String>,
    list_price: Option<String>,
    ack: String,
    admission_percent: u32,
    payment_policy: String,
    payment_tolerance: Option<String>,
    waiting_room: bool,
    requirements: String,
    audience: Option<String>,
    phase: String,
    granted: u64,
    remaining: u64,
    returned: u64,
    withheld: u64,
    created_at: String,
    archived_at: Option<String>,
    reference: Option<String>,
    metadata: Option<String>,
}

impl ExportedSale {
    pub(super) fn new(sale: Sale) -> anyhow::Result<Self> {
        let requirements: Vec<_> = sale.requirements.iter().map(ToString::to_string).collect();
        let tolerance = sale.payment_tolerance.as_ref().map(decimal);
        let list_price = sale.list_price.as_ref().map(decimal);
        Ok(Self {
            price: decimal(&sale.unit_price)?,
            currency: sale.unit_price.currency.to_string(),
            payment_tolerance: tolerance.transpose()?,
            id: sale.id.to_string(),
            title: sale.title,
            stock: sale.stock,
            starts_at: sale.state.starts_at.to_string(),
            ends_at: sale.state.ends_at.to_string(),
            per_user_limit: sale.per_user_limit,
            hold_seconds: sale.hold_seconds,
            seller: sale.seller.to_string(),
            product_id: sale.product_id.map(|id| id.to_string()),
            description: sale.description,
            image_url: sale.image_url,
            gallery: Some(sale.gallery.join(" ")).filter(|urls| !urls.is_empty()),
            list_price: list_price.transpose()?,
            ack: sale.ack.to_string(),
            admission_percent: sale.admission_percent,
            payment_policy: sale.payment_policy.to_string(),
            waiting_room: sale.waiting_room,
            requirements: requirements.join(" "),
            audience: sale.audience.map(|audience| audience.to_string()),
            phase: sale.state.phase.to_string(),
            granted: sale.state.granted,
            remaining: sale.state.remaining,
            returned: sale.state.returned,
            withheld: sale.state.withheld,
            created_at: sale.created_at.to_string(),
            archived_at: sale.archived_at.as_ref().map(Timestamp::to_string),
            reference: sale.reference,
            metadata: object(&sale.metadata)?,
        })
    }
}

#[derive(Serialize)]
pub(super) struct ExportedRedPacket {
    id: String,
    title: String,
    sender: String,
    total: String,
    currency: String,
    shares: u32,
    split: String,
    claimed: String,
    remaining: String,
    refunded: String,
    withheld: String,
    phase: String,
    starts_at: String,
    ends_at: String,
    created_at: String,
    archived_at: Option<String>,
    reference: Option<String>,
    metadata: Option<String>,
}

impl ExportedRedPacket {
    pub(super) fn new(packet: RedPacket) -> anyhow::Result<Self> {
        Ok(Self {
            total: decimal(&packet.total)?,
            claimed: decimal(&packet.claimed)?,
            remaining: decimal(&packet.remaining)?,
            refunded: decimal(&packet.refunded)?,
            withheld: decimal(&packet.withheld)?,
            currency: packet.total.currency.to_string(),
            id: packet.id.to_string(),
            title: packet.title,
            sender: packet.sender.to_string(),
            shares: packet.shares,
            split: packet.split.rule.to_string(),
            phase: packet.state.phase.to_string(),
            starts_at: packet.state.starts_at.to_string(),
            ends_at: packet.state.ends_at.to_string(),
            created_at: packet.created_at.to_string(),
            archived_at: packet.archived_at.as_ref().map(Timestamp::to_string),
            reference: packet.reference,
            metadata: object(&packet.metadata)?,
        })
    }
}

#[derive(Serialize)]
pub(super) struct ExportedClaim {
    id: String,
    campaign: String,
    number: u32,
    user: String,
    amount: String,
    currency: String,
    created_at: String,
}

impl ExportedClaim {
    pub(super) fn new(claim: Claim) -> anyhow::Result<Self> {
        Ok(Self {
            id: claim.id.to_string(),
            campaign: claim.campaign.to_string(),
            number: claim.number,
            user: claim.user.to_string(),
            amount: decimal(&claim.amount)?,
            currency: claim.amount.currency.to_string(),
            created_at: claim.created_at.to_string(),
        })
    }
}

#[derive(Serialize)]
pub(super) struct ExportedOrder {
    id: String,
    campaign: String,
    number: u32,
    user: String,
    quantity: u32,
    returned_quantity: u32,
    cancelled_quantity: u32,
    amount: String,
    currency: String,
    state: String,
    created_at: String,
    reference: Option<String>,
    metadata: Option<String>,
}

impl ExportedOrder {
    pub(super) fn new(order: Order) -> anyhow::Result<Self> {
        Ok(Self {
            id: order.id.to_string(),
            campaign: order.campaign.to_string(),
            number: order.number,
            user: order.user.to_string(),
            quantity: order.quantity,
            returned_quantity: order.returned_quantity,
            cancelled_quantity: order.cancelled_quantity,
            amount: decimal(&order.amount)?,
            currency: order.amount.currency.to_string(),
            state: order.state.to_string(),
            created_at: order.created_at.to_string(),
            reference: order.reference,
            metadata: object(&order.metadata)?,
        })
    }
}

#[derive(Serialize)]
pub(super) struct ExportedPayment {
    reference: String,
    order: String,
    user: Option<String>,
    outcome: String,
    amount: Option<String>,
    currency: Option<String>,
    problem: Option<String>,
    created_at: String,
}

impl ExportedPayment {
    pub(super) fn new(payment: PaymentRecord) -> anyhow::Result<Self> {
        let amount = payment.amount.as_ref();
        Ok(Self {
            amount: amount.map(decimal).transpose()?,
            currency: amount.map(|amount| amount.currency.to_string()),
            reference: payment.reference,
            order: payment.order.to_string(),
            user: payment.user.map(|user| user.to_string()),
            outcome: payment.outcome.to_string(),
            problem: payment.problem,
            created_at: payment.created_at.to_string(),
        })
    }
}

#[derive(Serialize)]
pub(super) struct ExportedDeposit {
    id: String,
    user: String,
    amount: String,
    currency: String,
    reference: Option<String>,
    reversed_amount: String,
    created_at: String,
    metadata: Option<String>,
}

impl ExportedDeposit {
    pub(super) fn new(deposit: Deposit) -> anyhow::Result<Self> {
        Ok(Self {
            id: deposit.id.to_string(),
            user: deposit.user.to_string(),
            amount: decimal(&deposit.amount)?,
            currency: deposit.amount.currency.to_string(),
            reference: deposit.reference,
            reversed_amount: decimal(&deposit.reversed_amount)?,
            created_at: deposit.created_at.to_string(),
            metadata: object(&deposit.metadata)?,
        })
    }
}

/// Withdrawal, or refund of an order.
#[derive(Serialize)]
pub(super) struct ExportedMovement {
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    user: String,
    amount: String,
    currency: String,
    created_at: String,
}

impl ExportedMovement {
    pub(super) fn from_withdrawal(withdrawal: Withdrawal) -> anyhow::Result<Self> {
        Ok(Self {
            reference: withdrawal.reference,
            order: None,
            user: withdrawal.user.to_string(),
            amount: decimal(&withdrawal.amount)?,
            currency: withdrawal.amount.currency.to_string(),
            created_at: withdrawal.created_at.to_string(),
        })
    }

    pub(super) fn from_refund(refund: Refund) -> anyhow::Result<Self> {
        Ok(Self {
            reference: refund.reference,
            order: Some(refund.order.to_string()),
            user: refund.user.to_string(),
            amount: decimal(&refund.amount)?,
            currency: refund.amount.currency.to_string(),
            created_at: refund.created_at.to_string(),
        })
    }
}

/// Columns of `qiang import accounts`, then what is due and whether it is all.
#[derive(Serialize)]
pub(super) struct ExportedAccount {
    user: String,
    amount: String,
    currency: String,
    refunds_due: String,
    settled: bool,
}

impl ExportedAccount {
    pub(super) fn new(account: &Account, balance: &Balance) -> anyhow::Result<Self> {
        Ok(Self {
            user: account.user.to_string(),
            amount: decimal(&balance.available)?,
            currency: balance.available.currency.to_string(),
            refunds_due: decimal(&balance.refunds_due)?,
            settled: account.settled,
        })
    }
}
