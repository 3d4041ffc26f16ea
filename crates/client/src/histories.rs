//! Histories of users, newest first, and single deposits and payments. The lists show settled entries only, so they lag
//! the decisions.

use futures_util::Stream;

use crate::{
    answers::{Claim, DepositRecord, Order, PaymentRecord, Posting},
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, UserId},
    paths::PathKind,
    paths::encoded,
    words::{OrderState, PostingKind},
};

impl Client {
    /// Red packet shares of a user, newest first. The stream loads one page after another as it is read. Users see
    /// their own; other users' shares need the scope `read:any`.
    pub fn claims_of(
        &self,
        user: &UserId,
    ) -> impl Stream<Item = Result<Claim, Error>> + Send + use<> {
        self.pages(&path(user, "claims"), "")
    }

    /// Orders of a user, newest first, of one state or of all. Users see their own.
    pub fn orders_of(
        &self,
        user: &UserId,
        state: Option<OrderState>,
    ) -> impl Stream<Item = Result<Order, Error>> + Send + use<> {
        let query = state.map_or_else(String::new, |state| format!("state={state}"));
        self.pages(&path(user, "orders"), &query)
    }

    /// Postings on a user's accounts, newest first, of one kind or of all. Users see their own.
    pub fn postings_of(
        &self,
        user: &UserId,
        kind: Option<PostingKind>,
    ) -> impl Stream<Item = Result<Posting, Error>> + Send + use<> {
        let query = kind.map_or_else(String::new, |kind| format!("kind={kind}"));
        self.pages(&path(user, "postings"), &query)
    }

    /// Orders of a sale, ordered by number. Sellers see those of their own sales.
    pub fn orders_of_sale(
        &self,
        sale: &CampaignId,
    ) -> impl Stream<Item = Result<Order, Error>> + Send + use<> {
        let path = format!("{}/orders", PathKind::Sale.path(sale));
        self.pages(&path, "")
    }

    /// Deposit and whether it was reversed. Users see their own.
    ///
    /// # Errors
    /// `not-found` if the user has no such deposit; see [`Error`].
    pub async fn get_deposit(&self, user: &UserId, deposit: &Id) -> Result<DepositRecord, Error> {
        let deposit = format!("deposits/{}", encoded(deposit.as_str()));
        self.json(RepeatableCall::get(path(user, &deposit))).await
    }

    /// Payment and its outcome. Buyers and sellers see payments of their orders. The scope `read:any` also sees refused
    /// reports.
    ///
    /// # Errors
    /// `not-found`; see [`Error`].
    pub async fn get_payment(&self, reference: &Id) -> Result<PaymentRecord, Error> {
        let path = format!("/v1/payments/{}", encoded(reference.as_str()));
        self.json(RepeatableCall::get(path)).await
    }
}

fn path(user: &UserId, list: &str) -> String {
    format!("/v1/accounts/{}/{list}", encoded(user.as_str()))
}
