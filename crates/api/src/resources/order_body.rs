//! Bodies of orders.

use qiang_core::{book::OrderView, money::Currency};
use qiang_wire::answers::Order;

use crate::http::wire::{ToWire as _, grant_body};

/// Body of an order.
pub(crate) fn order_body(view: &OrderView, currency: Currency) -> Order {
    Order {
        user: view.user.to_wire(),
        grant: grant_body(&view.grant, currency, None),
        refunds_due: view.grant.order.map_or(0, |order| order.refunds_due),
    }
}
