//! What settlement asks of no ledger: accounts, payouts, actions.

use async_trait::async_trait;
use qiang_core::{
    id::{OrderId, UserId},
    money::Money,
    ports::{
        AccountStore, Action, ActionStore, Balance, LedgerError, Owed, PaidOut, Payout, PayoutStore,
    },
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
}

#[async_trait]
impl PayoutStore for FakeLedger {
    async fn pay_out_by(&self, _: &Payout, _: Option<&Action>) -> Result<PaidOut, LedgerError> {
        Err(broken())
    }

    async fn owed(&self, _: OrderId) -> Result<Option<Owed>, LedgerError> {
        Err(broken())
    }
}

#[async_trait]
impl ActionStore for FakeLedger {
    async fn record(&self, _: &Action) -> Result<(), LedgerError> {
        Err(broken())
    }

    async fn actions(&self, _: &str, _: Option<Uuid>, _: u32) -> Result<Vec<Action>, LedgerError> {
        Err(broken())
    }
}
