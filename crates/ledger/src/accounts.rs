//! Deposits and balances.

use std::collections::BTreeMap;

use qiang_core::{
    id::UserId,
    money::{AMOUNT_MINOR_MAX, Currency, Money},
    ports::{Balance, LedgerError},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    dialect::Dialect,
    error::{StoreError, raced},
    rows::{AccountKey, DIRECT, OUTSIDE, PostingRow, Purpose},
};

/// Puts money from outside into a user's account, once per id.
pub(crate) async fn deposit<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    id: Uuid,
    user: &UserId,
    amount: Money,
) -> Result<(), StoreError> {
    if !(1..=AMOUNT_MINOR_MAX).contains(&amount.minor) {
        return Err(LedgerError::AmountOutOfRange.into());
    }
    let id = id.to_string();
    if D::has_deposit(conn, &id).await? {
        return Ok(());
    }
    let account = |owner, purpose| AccountKey {
        owner,
        purpose,
        currency: amount.currency,
    };
    let credit = add::<D>(conn, account(user.as_str(), Purpose::User), amount.minor).await?;
    let debit = add::<D>(conn, account(OUTSIDE, Purpose::Outside), -amount.minor).await?;
    // Half of the range keeps room for what claims, refunds and payments will add. The outside owes what all users
    // have together, so it would leave the range long before a user does.
    let room = -(i64::MAX / 2)..=i64::MAX / 2;
    if !room.contains(&credit.1) || !room.contains(&debit.1) {
        return Err(LedgerError::Overflow.into());
    }
    let seq = D::next_direct(conn).await?;
    raced(D::enter_deposit(conn, &id, seq).await)?;
    let posting = PostingRow {
        source: DIRECT,
        seq,
        kind: "deposit",
        debit: debit.0,
        credit: credit.0,
        amount: amount.minor,
        campaign: None,
        number: None,
        at: now.as_millis(),
    };
    Ok(D::post(conn, &[posting]).await?)
}

/// Adds to an account, opening it if need be; returns its id, and its balance afterwards.
async fn add<D: Dialect>(
    conn: &mut D::Connection,
    account: AccountKey<'_>,
    amount: i64,
) -> Result<(i64, i64), StoreError> {
    D::credit(conn, &[(account, amount)]).await?;
    D::hold(conn, account)
        .await?
        .ok_or_else(|| StoreError::damaged("an account is gone"))
}

/// Everything a user has, one balance a currency.
pub(crate) async fn balances<D: Dialect>(
    conn: &mut D::Connection,
    user: &UserId,
) -> Result<Vec<Balance>, StoreError> {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for account in D::accounts_of(conn, &[user.as_str()]).await? {
        if account.purpose == Purpose::User.name() {
            sums.entry(account.currency).or_default().0 = account.balance;
        } else if account.purpose == Purpose::RefundsDue.name() {
            sums.entry(account.currency).or_default().1 = account.balance;
        }
    }
    let balance = |(currency, (available, refunds_due_minor)): (String, (i64, i64))| {
        let currency: Currency = currency
            .parse()
            .map_err(|_| StoreError::damaged(format!("account in {currency}")))?;
        Ok(Balance {
            available: Money::new(available, currency),
            refunds_due_minor,
        })
    };
    sums.into_iter().map(balance).collect()
}
