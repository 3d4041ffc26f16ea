//! Accounts and deposits.

use serde_json::json;

use crate::{
    answers::{Account, Deposit, Reversal, Transfer, Withdrawal},
    call::{RepeatableCall, Replayable},
    client::Client,
    error::Error,
    ids::{Id, UserId},
    paths::encoded,
    values::Money,
};

impl Client {
    /// Balances of a user's account. Users see their own account.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn account(&self, user: &UserId) -> Result<Account, Error> {
        self.json(RepeatableCall::get(path(user, ""))).await
    }

    /// Credits money from outside to a user's account. The reference is kept for good: the same deposit with it is a
    /// replay. Scope `deposit`.
    ///
    /// # Errors
    /// `reference-used`; see [`Error`].
    pub async fn deposit(
        &self,
        user: &UserId,
        reference: &str,
        amount: Money,
    ) -> Result<Deposit, Error> {
        let deposited = self.deposit_replayable(user, reference, amount).await?;
        Ok(deposited.value)
    }

    /// As [`Client::deposit`], with whether the deposit had been made before.
    ///
    /// # Errors
    /// As for [`Client::deposit`].
    pub async fn deposit_replayable(
        &self,
        user: &UserId,
        reference: &str,
        amount: Money,
    ) -> Result<Replayable<Deposit>, Error> {
        let Money { amount, currency } = amount;
        let body = json!({ "reference": reference, "amount": amount, "currency": currency });
        let call = RepeatableCall::post(path(user, "/deposits")).json(&body)?;
        self.replayable(call.keyed(self)).await
    }

    /// Takes an amount of a deposit back, while the account has as much. Each call takes as much again. Scope
    /// `deposit`.
    ///
    /// # Errors
    /// `reversal-exceeds-deposit`, `insufficient-funds`; see [`Error`].
    pub async fn reverse_part_of_deposit(
        &self,
        user: &UserId,
        deposit: &Id,
        amount: Money,
    ) -> Result<Reversal, Error> {
        let deposit = encoded(deposit.as_str());
        let call = RepeatableCall::post(path(user, &format!("/deposits/{deposit}/reversal")));
        let call = call.json(&json!({ "amount": amount }))?;
        self.json(call.keyed(self)).await
    }

    /// Reverses the rest of a deposit. The account must hold that amount. A repeated call changes nothing. Scope
    /// `deposit`.
    ///
    /// # Errors
    /// `insufficient-funds`; see [`Error`].
    pub async fn reverse_deposit(&self, user: &UserId, deposit: &Id) -> Result<Reversal, Error> {
        let deposit = encoded(deposit.as_str());
        let call = RepeatableCall::post(path(user, &format!("/deposits/{deposit}/reversal")));
        self.json(call.keyed(self)).await
    }

    /// Moves available money from a user's account to another user's. A call with the same reference is a replay. Scope
    /// `admin`.
    ///
    /// # Errors
    /// `insufficient-funds`, `reference-used`; see [`Error`].
    pub async fn transfer(
        &self,
        user: &UserId,
        to: &UserId,
        reference: &str,
        amount: Money,
    ) -> Result<Transfer, Error> {
        let Money { amount, currency } = amount;
        let body = json!({
            "reference": reference, "to": to, "amount": amount, "currency": currency,
        });
        let call = RepeatableCall::post(path(user, "/transfers")).json(&body)?;
        self.json(call.keyed(self)).await
    }

    /// Withdraws money from an account, to be paid out. A call with the same reference is a replay.
    ///
    /// # Errors
    /// `insufficient-funds`; see [`Error`].
    pub async fn withdraw(
        &self,
        user: &UserId,
        reference: &str,
        amount: Money,
    ) -> Result<Withdrawal, Error> {
        let Money { amount, currency } = amount;
        let body = json!({ "reference": reference, "amount": amount, "currency": currency });
        let call = RepeatableCall::post(path(user, "/withdrawals")).json(&body)?;
        self.json(call.keyed(self)).await
    }
}

fn path(user: &UserId, rest: &str) -> String {
    format!("/v1/accounts/{}{rest}", encoded(user.as_str()))
}
