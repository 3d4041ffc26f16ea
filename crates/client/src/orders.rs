//! Orders after the claim: their payment, and the ways back.

use futures_util::Stream;

use crate::{
    answers::{Order, OwedOrder, Payment, Refund, Refunds},
    call::Call,
    client::Client,
    error::Error,
    ids::{OrderId, UserId, encoded},
    requests::NewPayment,
};

impl Client {
    /// An order. Buyers see their own.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(Call::get(path(id, ""))).await
    }

    /// Records a payment that arrived. The same reference again is a replay. Another amount than the order's price is
    /// owed back, unless the sale's payment policy accepts it. Scope `pay`.
    ///
    /// # Errors
    /// Problems such as `user-mismatch` and `payment-used`; see [`Error`].
    pub async fn pay_order(&self, id: &OrderId, payment: &NewPayment) -> Result<Payment, Error> {
        let call = Call::post(path(id, "/payment")).json(payment)?;
        self.json(call.keyed(self)).await
    }

    /// What is owed to the buyer of an order, and what was paid back. Buyers and sellers see their own.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn refunds(&self, id: &OrderId) -> Result<Refunds, Error> {
        self.json(Call::get(path(id, "/refunds"))).await
    }

    /// The orders that something is still owed for, page after page as the stream is read: of the caller's own sales,
    /// of those of `seller`, or with `all` of everybody's. Others' with the scope `read:any`.
    pub fn owed_orders(
        &self,
        seller: Option<&UserId>,
        all: bool,
    ) -> impl Stream<Item = Result<OwedOrder, Error>> + Send + use<> {
        let owner = seller.map(|seller| format!("owner={}", encoded(seller.as_str())));
        let all = all.then(|| "all=true".to_owned());
        let query: Vec<_> = owner.into_iter().chain(all).collect();
        self.pages("/v1/refunds", &query.join("&"), "orders")
    }

    /// Records that what was owed for an order was paid back. The same reference again is a replay.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn refund_order(&self, id: &OrderId, refund: &NewPayment) -> Result<Refund, Error> {
        let call = Call::post(path(id, "/refunds")).json(refund)?;
        self.json(call.keyed(self)).await
    }

    /// Gives a held order's units back. Again changes nothing. Buyers may for their own.
    ///
    /// # Errors
    /// `order-conflict` where it is paid or expired; see [`Error`].
    pub async fn cancel_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(Call::post(path(id, "/cancellation")).keyed(self))
            .await
    }

    /// Takes a paid order back: its units are for sale again, its price is owed. Again changes nothing.
    ///
    /// # Errors
    /// `order-conflict` where it is not paid, `return-period-over`; see [`Error`].
    pub async fn return_order(&self, id: &OrderId) -> Result<Order, Error> {
        self.json(Call::post(path(id, "/return")).keyed(self)).await
    }
}

fn path(id: &OrderId, rest: &str) -> String {
    format!("/v1/orders/{}{rest}", encoded(id.as_str()))
}
