//! Accounts and deposits.

use crate::{
    answers::{Account, Deposit},
    call::Call,
    client::Client,
    error::Error,
    ids::{UserId, encoded},
    values::Money,
};

impl Client {
    /// What a user has. Users see their own account.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn account(&self, user: &UserId) -> Result<Account, Error> {
        self.json(Call::get(path(user, ""))).await
    }

    /// Puts money from outside into a user's account. Scope `deposit`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn deposit(&self, user: &UserId, amount: Money) -> Result<Deposit, Error> {
        let call = Call::post(path(user, "/deposits")).json(&amount)?;
        self.json(call.keyed(self)).await
    }
}

fn path(user: &UserId, rest: &str) -> String {
    format!("/v1/accounts/{}{rest}", encoded(user.as_str()))
}
