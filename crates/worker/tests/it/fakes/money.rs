//! Ports of the fake ledger that settlement does not call: accounts, payouts, histories, actions, keys.

use async_trait::async_trait;
use qiang_core::{
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    ports::{
        AccountStore, Action, ActionQuery, ActionStore, Balance, Creation, DepositRecord,
        HistoryPage, HistoryStore, KeyBinding, KeyState, KeyStore, KeyUse, LedgerError, Movement,
        MovementQuery, OrderQuery, PaymentQuery, PaymentRecord, Payout, PayoutReceipt, PayoutStore,
        Posting, PostingQuery, RefundBalance, RefundBalanceQuery, RefundDueOrder, UserOrder,
        WholeCreation,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{FakeLedger, broken};

#[async_trait]
impl AccountStore for FakeLedger {
    async fn deposit_by(
        &self,
        _: Uuid,
        _: &UserId,
        _: Money,
        _: Option<&Action>,
    ) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn balances(&self, _: &UserId) -> Result<Vec<Balance>, LedgerError> {
        Err(broken())
    }

    async fn money_in(&self, _: Currency) -> Result<i64, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl PayoutStore for FakeLedger {
    async fn pay_out_by(
        &self,
        _: &Payout,
        _: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        Err(broken())
    }

    async fn owed(&self, _: OrderId) -> Result<Vec<RefundBalance>, LedgerError> {
        Err(broken())
    }

    async fn owed_orders(
        &self,
        _: &RefundBalanceQuery,
    ) -> Result<Vec<RefundDueOrder>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl HistoryStore for FakeLedger {
    async fn orders_of(&self, _: &OrderQuery) -> Result<HistoryPage<UserOrder>, LedgerError> {
        Err(broken())
    }

    async fn payments(&self, _: &PaymentQuery) -> Result<HistoryPage<PaymentRecord>, LedgerError> {
        Err(broken())
    }

    async fn movements(&self, _: &MovementQuery) -> Result<Vec<Movement>, LedgerError> {
        Err(broken())
    }

    async fn postings_of(&self, _: &PostingQuery) -> Result<Vec<Posting>, LedgerError> {
        Err(broken())
    }

    async fn deposit_of(&self, _: Uuid) -> Result<Option<DepositRecord>, LedgerError> {
        Err(broken())
    }

    async fn payment_of(&self, _: &PaymentRef) -> Result<Option<PaymentRecord>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl ActionStore for FakeLedger {
    async fn record(&self, _: &Action) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn strike(&self, _: Uuid) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn actions(&self, _: &str, _: Option<Uuid>, _: u32) -> Result<Vec<Action>, LedgerError> {
        Err(broken())
    }

    async fn record_refusal(&self, _: &Action, _: &PaymentRef) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn refusal_of(&self, _: &PaymentRef) -> Result<Option<Action>, LedgerError> {
        Err(broken())
    }

    async fn action_log(&self, _: &ActionQuery) -> Result<Vec<Action>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl KeyStore for FakeLedger {
    async fn bind_key(&self, _: &KeyUse, _: Uuid) -> Result<KeyBinding, LedgerError> {
        Err(broken())
    }

    async fn bound_key(&self, _: &KeyUse) -> Result<Option<Uuid>, LedgerError> {
        Err(broken())
    }

    async fn begin_key(&self, _: &KeyUse, _: Uuid) -> Result<KeyState, LedgerError> {
        Err(broken())
    }

    async fn answer_key(&self, _: &KeyUse, _: Uuid, _: &str) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn rebind_key(&self, _: &KeyUse, _: Uuid, _: Uuid) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn release_key(&self, _: &KeyUse, _: Uuid) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn deposit_named(
        &self,
        _: Option<&KeyUse>,
        _: Uuid,
        _: (&UserId, Money),
        _: &PaymentRef,
        _: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError> {
        Err(broken())
    }

    async fn create_all(
        &self,
        _: Vec<Creation>,
    ) -> Result<Vec<Result<KeyBinding, LedgerError>>, LedgerError> {
        Err(broken())
    }

    async fn create_whole(&self, _: Vec<Creation>) -> Result<WholeCreation, LedgerError> {
        Err(broken())
    }

    async fn pay_out_under(
        &self,
        _: &KeyUse,
        _: Uuid,
        _: &Payout,
        _: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        Err(broken())
    }

    async fn is_change_made(&self, _: Uuid) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn purge_keys(&self, _: Timestamp, _: u32) -> Result<u64, LedgerError> {
        Err(broken())
    }
}
