//! What users have done, newest first, and deposits and payments by their names. What is in the ledger is listed, which
//! follows what is decided.

use futures_util::Stream;

use crate::{
    answers::{Claim, DepositRecord, ListedOrder, PaymentRecord, Posting, UserOrder},
    call::Call,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, UserId, encoded},
    paths::Kind,
    words::{OrderState, PostingKind},
};

impl Client {
    /// The shares of red packets that a user has, newest first, page after page as the stream is read. Users see their
    /// own; others' are seen with the scope `read:any`.
    pub fn claims_of(
        &self,
        user: &UserId,
    ) -> impl Stream<Item = Result<Claim, Error>> + Send + use<> {
        self.pages(&path(user, "claims"), "", "claims")
    }

    /// The orders of a user, newest first, all or those in one state. Users see their own.
    pub fn orders_of(
        &self,
        user: &UserId,
        state: Option<OrderState>,
    ) -> impl Stream<Item = Result<UserOrder, Error>> + Send + use<> {
        let query = state.map_or_else(String::new, |state| format!("state={state}"));
        self.pages(&path(user, "orders"), &query, "orders")
    }

    /// What moved in a user's accounts, newest first, all or of one kind. Users see their own.
    pub fn postings_of(
        &self,
        user: &UserId,
        kind: Option<PostingKind>,
    ) -> impl Stream<Item = Result<Posting, Error>> + Send + use<> {
        let query = kind.map_or_else(String::new, |kind| format!("kind={kind}"));
        self.pages(&path(user, "postings"), &query, "postings")
    }

    /// The orders of a sale, in the order of their numbers. Sellers see those of their own sales.
    pub fn orders_of_sale(
        &self,
        sale: &CampaignId,
    ) -> impl Stream<Item = Result<ListedOrder, Error>> + Send + use<> {
        let path = format!("{}/orders", Kind::Sale.path(sale));
        self.pages(&path, "", "orders")
    }

    /// A deposit that was made, and whether it was taken back. Users see their own.
    ///
    /// # Errors
    /// `not-found` where the user has no such deposit; see [`Error`].
    pub async fn get_deposit(&self, user: &UserId, deposit: &Id) -> Result<DepositRecord, Error> {
        let deposit = format!("deposits/{}", encoded(deposit.as_str()));
        self.json(Call::get(path(user, &deposit))).await
    }

    /// What became of a payment. Buyers and sellers see those of their orders.
    ///
    /// # Errors
    /// `not-found`; see [`Error`].
    pub async fn get_payment(&self, reference: &Id) -> Result<PaymentRecord, Error> {
        let path = format!("/v1/payments/{}", encoded(reference.as_str()));
        self.json(Call::get(path)).await
    }
}

fn path(user: &UserId, list: &str) -> String {
    format!("/v1/accounts/{}/{list}", encoded(user.as_str()))
}
