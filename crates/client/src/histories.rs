//! Histories, newest first, and single deposits and payments. Lists of orders, claims, payments and postings show
//! settled entries only, so they lag the decisions.

use futures_util::Stream;

use crate::{
    answers::{Claim, Deposit, Order, PaymentRecord, Posting, Refund, Withdrawal},
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, UserId},
    paths::{PathKind, encoded, query_of, times},
    values::Timestamp,
    words::{OrderState, PaymentOutcome, PostingKind},
};

/// Filter for lists of orders. The default lists all orders that the caller sees.
#[derive(Debug, Clone, Default)]
pub struct OrderFilter {
    /// Sale of the orders. Its seller sees all of them.
    pub campaign: Option<CampaignId>,
    /// Buyer of the orders.
    pub user: Option<UserId>,
    /// The shop's own number of the orders, in their metadata. Excludes all other filters.
    pub reference: Option<String>,
    /// State of the orders.
    pub state: Option<OrderState>,
    /// Creation at this time or later.
    pub created_after: Option<Timestamp>,
    /// Creation before this time.
    pub created_before: Option<Timestamp>,
}

/// Filter for lists of payments. The default lists all payments that the caller sees.
#[derive(Debug, Clone, Default)]
pub struct PaymentFilter {
    /// Buyer of the orders.
    pub user: Option<UserId>,
    /// Outcome of the payments.
    pub outcome: Option<PaymentOutcome>,
    /// Reference of the payment service.
    pub reference: Option<String>,
    /// Decision at this time or later.
    pub created_after: Option<Timestamp>,
    /// Decision before this time.
    pub created_before: Option<Timestamp>,
}

/// Filter for lists of deposits, withdrawals and refunds. The default lists all that the caller sees.
#[derive(Debug, Clone, Default)]
pub struct MovementFilter {
    /// Owner of the account.
    pub user: Option<UserId>,
    /// Reference of the payment service.
    pub reference: Option<String>,
    /// Posting at this time or later.
    pub created_after: Option<Timestamp>,
    /// Posting before this time.
    pub created_before: Option<Timestamp>,
}

impl OrderFilter {
    fn query(&self) -> String {
        let given = [
            (
                "campaign",
                self.campaign.as_ref().map(|id| encoded(id.as_str())),
            ),
            (
                "user",
                self.user.as_ref().map(|user| encoded(user.as_str())),
            ),
            ("reference", self.reference.as_deref().map(encoded)),
            ("state", self.state.map(|state| state.to_string())),
        ];
        let times = times(self.created_after, self.created_before);
        query_of(given.into_iter().chain(times))
    }
}

impl PaymentFilter {
    fn query(&self) -> String {
        let given = [
            (
                "user",
                self.user.as_ref().map(|user| encoded(user.as_str())),
            ),
            ("outcome", self.outcome.map(|outcome| outcome.to_string())),
            ("reference", self.reference.as_deref().map(encoded)),
        ];
        let times = times(self.created_after, self.created_before);
        query_of(given.into_iter().chain(times))
    }
}

impl MovementFilter {
    fn query(&self) -> String {
        let given = [
            (
                "user",
                self.user.as_ref().map(|user| encoded(user.as_str())),
            ),
            ("reference", self.reference.as_deref().map(encoded)),
        ];
        let times = times(self.created_after, self.created_before);
        query_of(given.into_iter().chain(times))
    }
}

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

    /// Orders that match a filter, newest first. Users see their own, sellers those of their own sale; those of all
    /// users need the scope `read:any`.
    pub fn list_orders(
        &self,
        filter: &OrderFilter,
    ) -> impl Stream<Item = Result<Order, Error>> + Send + use<> {
        self.pages("/v1/orders", &filter.query())
    }

    /// Payments that match a filter, newest first. Users see their own; those of all users need the scope `pay` or
    /// `read:any`.
    pub fn list_payments(
        &self,
        filter: &PaymentFilter,
    ) -> impl Stream<Item = Result<PaymentRecord, Error>> + Send + use<> {
        self.pages("/v1/payments", &filter.query())
    }

    /// Deposits that match a filter, newest first. Users see their own; those of all users need the scope `deposit` or
    /// `read:any`.
    pub fn list_deposits(
        &self,
        filter: &MovementFilter,
    ) -> impl Stream<Item = Result<Deposit, Error>> + Send + use<> {
        self.pages("/v1/deposits", &filter.query())
    }

    /// Withdrawals that match a filter, newest first. Users see their own; those of all users need the scope `withdraw`
    /// or `read:any`.
    pub fn list_withdrawals(
        &self,
        filter: &MovementFilter,
    ) -> impl Stream<Item = Result<Withdrawal, Error>> + Send + use<> {
        self.pages("/v1/withdrawals", &filter.query())
    }

    /// Paid refunds that match a filter, newest first. Buyers see their own; those of all users need the scope `pay` or
    /// `read:any`.
    pub fn list_refunds(
        &self,
        filter: &MovementFilter,
    ) -> impl Stream<Item = Result<Refund, Error>> + Send + use<> {
        self.pages("/v1/refunds", &filter.query())
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
    pub async fn get_deposit(&self, user: &UserId, deposit: &Id) -> Result<Deposit, Error> {
        let deposit = format!("deposits/{}", encoded(deposit.as_str()));
        self.json(RepeatableCall::get(path(user, &deposit))).await
    }

    /// Payment and its outcome. Buyers and sellers see payments of their orders, the scope `pay` all. The scope
    /// `read:any` also sees refused reports.
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
