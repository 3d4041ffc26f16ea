//! Bodies of grants: claims of red packets, and orders of sales.

use std::collections::BTreeMap;

use qiang_core::{
    book::OrderView,
    campaign::AckLevel,
    id::{CampaignId, OrderId, UserId},
    money::{Currency, Money},
    outcome::Grant,
    ports::{GrantRecord, UserOrder},
};
use qiang_wire::{
    answers::{Claim, Order},
    ids::ClaimId,
    words::ObjectKind,
};

use crate::http::{problem::ApiProblem, wire::ToWire as _};

/// Body of a share, as the engine answers a claim.
pub(crate) fn granted_claim(
    grant: &Grant,
    user: &UserId,
    currency: Currency,
    ack: AckLevel,
) -> Claim {
    Claim {
        id: ClaimId::from_service(&grant.order_id()),
        object: ObjectKind::Claim,
        campaign: grant.campaign.to_wire(),
        number: grant.number,
        user: user.to_wire(),
        amount: Money::new(grant.amount_minor, currency).to_wire(),
        created_at: grant.granted_at.to_wire(),
        ack: Some(ack.to_wire()),
    }
}

/// Body of a settled share.
pub(crate) fn settled_claim(campaign: CampaignId, share: GrantRecord, currency: Currency) -> Claim {
    let number = share.number;
    Claim {
        id: ClaimId::from_service(&OrderId { campaign, number }),
        object: ObjectKind::Claim,
        campaign: campaign.to_wire(),
        number,
        user: share.user.to_wire(),
        amount: Money::new(share.amount_minor, currency).to_wire(),
        created_at: share.granted_at.to_wire(),
        ack: None,
    }
}

/// Body of an order, as the engine answers a claim. `None` if the grant is a share.
pub(crate) fn granted_order(
    grant: &Grant,
    user: &UserId,
    currency: Currency,
    ack: AckLevel,
) -> Option<Order> {
    let mut order = order_of(grant, user, currency)?;
    order.ack = Some(ack.to_wire());
    Some(order)
}

/// Body of an order, as the engine has it.
///
/// # Errors
/// If the engine has a share instead.
pub(crate) fn order_body(view: &OrderView, currency: Currency) -> Result<Order, ApiProblem> {
    let order = order_of(&view.grant, &view.user, currency);
    let mut order = order.ok_or_else(ApiProblem::unexpected_reply)?;
    order.refundable_payments = view.grant.order.map(|order| order.refunds_due);
    Ok(order)
}

/// Seconds of an extension. The service extends holds by whole seconds.
fn extension_seconds(extension_ms: i64) -> u32 {
    u32::try_from(extension_ms / 1_000).unwrap_or(u32::MAX)
}

fn order_of(grant: &Grant, user: &UserId, currency: Currency) -> Option<Order> {
    let terms = grant.order?;
    Some(Order {
        id: grant.order_id().to_wire(),
        object: ObjectKind::Order,
        campaign: grant.campaign.to_wire(),
        number: grant.number,
        user: user.to_wire(),
        quantity: grant.quantity,
        returned_quantity: terms.returned_quantity,
        cancelled_quantity: terms.cancelled_quantity,
        amount: Money::new(grant.amount_minor, currency).to_wire(),
        state: terms.state.to_wire(),
        hold_until: Some(terms.hold_until.to_wire()),
        hold_extension_seconds: Some(extension_seconds(terms.extension_ms)).filter(|it| *it > 0),
        refundable_payments: None,
        title: None,
        reference: None,
        metadata: BTreeMap::new(),
        created_at: grant.granted_at.to_wire(),
        ack: None,
    })
}

/// Body of a settled order of a sale.
pub(crate) fn settled_order(campaign: CampaignId, grant: GrantRecord, currency: Currency) -> Order {
    let number = grant.number;
    Order {
        id: OrderId { campaign, number }.to_wire(),
        object: ObjectKind::Order,
        campaign: campaign.to_wire(),
        number,
        user: grant.user.to_wire(),
        quantity: grant.quantity,
        returned_quantity: grant.returned,
        cancelled_quantity: grant.cancelled,
        amount: Money::new(grant.amount_minor, currency).to_wire(),
        state: grant.state.to_wire(),
        hold_until: None,
        hold_extension_seconds: None,
        refundable_payments: None,
        title: None,
        reference: None,
        metadata: BTreeMap::new(),
        created_at: grant.granted_at.to_wire(),
        ack: None,
    }
}

/// Body of a settled order in its buyer's history.
pub(crate) fn order_in_history(order: UserOrder) -> Order {
    let mut body = settled_order(order.campaign, order.grant, order.currency);
    body.title = Some(order.title);
    body
}
