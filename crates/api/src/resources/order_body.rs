//! Wire types of orders and payments.

use qiang_core::{book::OrderView, money::Currency};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::wire::ClaimGrantBody;

/// An order: its buyer and the grant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order)]
pub(crate) struct OrderBody {
    /// The buyer.
    user: String,
    #[serde(flatten)]
    grant: ClaimGrantBody,
    /// Number of payments with a refund due, paid or not: each one that did not pay the order, and the one that paid
    /// it once units were returned.
    refunds_due: u32,
}

impl OrderBody {
    pub(crate) fn new(view: &OrderView, currency: Currency) -> Self {
        Self {
            user: view.user.to_string(),
            grant: ClaimGrantBody::new(&view.grant, currency, None),
            refunds_due: view.grant.order.map_or(0, |order| order.refunds_due),
        }
    }
}

/// Outcome of a payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Payment)]
pub(crate) struct PaymentBody {
    /// paid; reinstated: the hold was over, but the units were still available; refund_due: it did not pay the order,
    /// so a refund is due.
    pub(crate) outcome: &'static str,
    pub(crate) order: OrderBody,
}
