//! Orders: payment, cancellation, return and refunds.

use futures_util::Stream;
use serde_json::json;

use crate::{
    answers::{Order, OrderCancellations, OwedOrder, Payment, Refund, RefundReversal, Refunds},
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, OrderId, UserId},
    paths::encoded,
    requests::{HeldOrders, NewPayment},
};

impl Client {
    /// Order. Buyers see their own.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(RepeatableCall::get(path(id, ""))).await
    }

    /// Reports a payment. A report with the same reference is a replay. A payment that differs from the order's price
    /// becomes a refund due, unless the sale's payment policy accepts it. Scope `pay`.
    ///
    /// # Errors
    /// Problems such as `user-mismatch` and `payment-used`; see [`Error`].
    pub async fn pay_order(&self, id: &OrderId, payment: &NewPayment) -> Result<Payment, Error> {
        let call = RepeatableCall::post(path(id, "/payment")).json(payment)?;
        self.json(call.keyed(self)).await
    }

    /// Refunds of an order, due and paid. Buyers and sellers see those of their own orders.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn refunds(&self, id: &OrderId) -> Result<Refunds, Error> {
        self.json(RepeatableCall::get(path(id, "/refunds"))).await
    }

    /// Orders with unpaid refunds: of the caller's own sales, of the sales of `seller`, or of all sales (`all`). Other
    /// users' sales need the scope `read:any`. The stream loads one page after another as it is read.
    pub fn owed_orders(
        &self,
        seller: Option<&UserId>,
        all: bool,
    ) -> impl Stream<Item = Result<OwedOrder, Error>> + Send + use<> {
        let owner = seller.map(|seller| format!("owner={}", encoded(seller.as_str())));
        let all = all.then(|| "all=true".to_owned());
        let query: Vec<_> = owner.into_iter().chain(all).collect();
        self.pages("/v1/refunds-due", &query.join("&"))
    }

    /// Reports a refund of an order. A report with the same reference is a replay.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn refund_order(&self, id: &OrderId, refund: &NewPayment) -> Result<Refund, Error> {
        let call = RepeatableCall::post(path(id, "/refunds")).json(refund)?;
        self.json(call.keyed(self)).await
    }

    /// Reverses a recorded refund: its money is due to the buyer again. A repetition changes nothing. Scope `pay`.
    ///
    /// # Errors
    /// `not-found` if the order has no refund with this reference; see [`Error`].
    pub async fn reverse_refund(
        &self,
        id: &OrderId,
        reference: &Id,
    ) -> Result<RefundReversal, Error> {
        let rest = format!("/refunds/{}/reversal", encoded(reference.as_str()));
        self.json(RepeatableCall::post(path(id, &rest)).keyed(self))
            .await
    }

    /// Cancels a held order and restocks its units. Idempotent. Buyers may cancel their own orders.
    ///
    /// # Errors
    /// `order-conflict` if it is paid or expired; see [`Error`].
    pub async fn cancel_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(RepeatableCall::post(path(id, "/cancellation")).keyed(self))
            .await
    }

    /// Extends the hold of a held order by these seconds, once. The same extension again changes nothing. Scope
    /// `campaigns:write` for orders of the caller's sales, otherwise `admin`.
    ///
    /// # Errors
    /// `hold-extended` if it was extended by another time, `hold-over` and `order-conflict` if it is no longer held;
    /// see [`Error`].
    pub async fn extend_hold(&self, id: &OrderId, seconds: u32) -> Result<Order, Error> {
        let body = json!({ "seconds": seconds });
        let call = RepeatableCall::post(path(id, "/hold-extension")).json(&body)?;
        self.json(call.keyed(self)).await
    }

    /// Cancels one part of the held orders of a sale that match a filter, the newest first. The units are restocked.
    /// The next part begins at `next` of this one. Scope `campaigns:write` or `campaigns:write:any`.
    ///
    /// # Errors
    /// `uncertain` if some orders may be cancelled; see [`Error`].
    pub async fn cancel_orders(
        &self,
        sale: &CampaignId,
        held: &HeldOrders,
    ) -> Result<OrderCancellations, Error> {
        let call = RepeatableCall::post(format!("/v1/sales/{sale}/orders/cancel")).json(held)?;
        self.json(call.keyed(self)).await
    }

    /// Cancels some units of a held order: they are restocked, and the order has the others at their price. Each call
    /// cancels that many units again. With its last units, the order is cancelled.
    ///
    /// # Errors
    /// `cancellation-exceeds-order` if the order has fewer units, `order-conflict` if it is paid or expired; see
    /// [`Error`].
    pub async fn cancel_units(&self, id: &OrderId, quantity: u32) -> Result<Order, Error> {
        let body = json!({ "quantity": quantity });
        let call = RepeatableCall::post(path(id, "/cancellation")).json(&body)?;
        self.json(call.keyed(self)).await
    }

    /// Returns some units of a paid order: they are restocked, and their price becomes a refund due. Each call returns
    /// that many units again.
    ///
    /// # Errors
    /// `return-exceeds-order` if fewer units are left, `order-conflict` if the order is not paid, `return-period-over`;
    /// see [`Error`].
    pub async fn return_units(&self, id: &OrderId, quantity: u32) -> Result<Order, Error> {
        let call =
            RepeatableCall::post(path(id, "/return")).json(&json!({ "quantity": quantity }))?;
        self.json(call.keyed(self)).await
    }

    /// Returns all units of a paid order that were not returned yet: they are for sale again, and what paid them is
    /// owed. Again changes nothing.
    ///
    /// # Errors
    /// `order-conflict` if it is not paid, `return-period-over`; see [`Error`].
    pub async fn return_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(RepeatableCall::post(path(id, "/return")).keyed(self))
            .await
    }
}

fn path(id: &OrderId, rest: &str) -> String {
    format!("/v1/orders/{}{rest}", encoded(id.as_str()))
}
