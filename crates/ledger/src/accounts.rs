//! Accounts, postings, deposits and balances.

use std::collections::{BTreeMap, HashMap};

use qiang_core::{
    id::UserId,
    money::{AMOUNT_MINOR_MAX, Currency, MONEY_MINOR_MAX, Money},
    ports::{Action, Balance, LedgerError},
    rows::{AccountKey, AccountPurpose, OUTSIDE, PostingRow, Value},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch_of, fetch_one, sql},
    error::{WorkError, check_all, raced},
};

const CREDIT: Statement = sql!("credit");
const ACCOUNTS_OF: Statement = sql!("accounts_of");
const LOCK_ACCOUNT: Statement = sql!("lock_account");
const LOCK_ACCOUNTS: Statement = sql!("lock_accounts");
const ADJUST: Statement = sql!("adjust");
const POST: Statement = sql!("post");
const HAS_DEPOSIT: Statement = sql!(both "SELECT posting FROM deposits WHERE id = $1");
const ENTER_DEPOSIT: Statement = sql!(both "INSERT INTO deposits (id, posting) VALUES ($1, $2)");

/// Columns of an account: id, owner, purpose, currency and balance.
pub(crate) type AccountColumns = (i64, String, String, String, i64);

/// Adds amounts to accounts in the given order, and creates missing accounts. Returns the ids in the same order. Only
/// the outside account may get a negative balance.
pub(crate) async fn credit<'a, D: Dialect>(
    conn: &mut D::Connection,
    accounts: &[(AccountKey<'a>, i64)],
) -> Result<Vec<i64>, WorkError> {
    let row = |(key, amount): &(AccountKey<'a>, i64)| -> [Value<'a>; 4] {
        let (owner, purpose, currency) = key.columns();
        [
            owner.into(),
            purpose.into(),
            currency.into(),
            (*amount).into(),
        ]
    };
    let rows: Vec<_> = accounts.iter().map(row).collect();
    let credited: Vec<(i64, String)> = fetch_of::<D, _, 4>(conn, &CREDIT, &[], &rows).await?;
    let owners = || accounts.iter().map(|(key, _)| key.owner);
    if !credited.is_empty() {
        // The database returns rows in the order of the input. This is checked.
        if !credited.iter().map(|(_, owner)| owner).eq(owners()) {
            return Err(WorkError::damaged(
                "accounts were returned in another order",
            ));
        }
        return Ok(credited.into_iter().map(|(id, _)| id).collect());
    }
    // MySQL returns no ids.
    let found = accounts_of::<D>(conn, owners()).await?;
    let ids = by_key(&found);
    let id = |(key, _): &(AccountKey<'_>, i64)| ids.get(&key.columns()).copied();
    let ids: Option<_> = accounts.iter().map(id).collect();
    ids.ok_or_else(|| WorkError::damaged("an account is gone"))
}

/// Accounts of these owners, in any order.
pub(crate) async fn accounts_of<D: Dialect>(
    conn: &mut D::Connection,
    owners: impl Iterator<Item = &str>,
) -> Result<Vec<AccountColumns>, WorkError> {
    let owners: Vec<[Value<'_>; 1]> = owners.map(|owner| [owner.into()]).collect();
    Ok(fetch_of::<D, _, 1>(conn, &ACCOUNTS_OF, &[], &owners).await?)
}

/// Maps [`AccountKey::columns`] to account ids.
pub(crate) fn by_key(accounts: &[AccountColumns]) -> HashMap<(&str, &str, &str), i64> {
    let accounts = accounts.iter();
    accounts
        .map(|(id, owner, purpose, currency, _)| ((&**owner, &**purpose, &**currency), *id))
        .collect()
}

/// Changes the balances of existing accounts. `moves` are (id, amount) in ascending order of the ids. An account with
/// the amount 0 is locked in order but not written; the close of a red packet locks its escrow in this way.
pub(crate) async fn adjust<D: Dialect>(
    conn: &mut D::Connection,
    moves: &[(i64, i64)],
) -> Result<(), WorkError> {
    let is_moved = |(_, amount): &&(i64, i64)| *amount != 0;
    let moved = moves.iter().filter(is_moved).count();
    if moves.len() > 1 || moved < moves.len() {
        let ids: Vec<[Value<'_>; 1]> = moves.iter().map(|(id, _)| [(*id).into()]).collect();
        D::execute_rows(conn, &LOCK_ACCOUNTS, &ids).await?;
    }
    let row = |(id, amount): &(i64, i64)| [(*id).into(), (*amount).into()];
    let rows: Vec<[Value<'_>; 2]> = moves.iter().filter(is_moved).map(row).collect();
    let adjusted = D::execute_rows(conn, &ADJUST, &rows).await?;
    Ok(check_all("accounts", adjusted, moved)?)
}

/// Locks an account until the end of the transaction. Returns its id and its balance.
pub(crate) async fn lock_account<D: Dialect>(
    conn: &mut D::Connection,
    account: AccountKey<'_>,
) -> Result<Option<(i64, i64)>, WorkError> {
    let (owner, purpose, currency) = account.columns();
    let key = [owner.into(), purpose.into(), currency.into()];
    Ok(fetch_one::<D, _>(conn, &LOCK_ACCOUNT, &key).await?)
}

/// Inserts postings.
pub(crate) async fn post<D: Dialect>(
    conn: &mut D::Connection,
    postings: &[PostingRow],
) -> Result<(), WorkError> {
    let rows = Vec::from_iter(postings.iter().map(PostingRow::columns));
    D::execute_rows(conn, &POST, &rows).await?;
    Ok(())
}

/// Deposits money from outside into a user's account, once per id.
pub(crate) async fn deposit<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    id: Uuid,
    (user, amount): (&UserId, Money),
    by: Option<&Action>,
) -> Result<(), WorkError> {
    if !(1..=AMOUNT_MINOR_MAX).contains(&amount.minor) {
        return Err(LedgerError::AmountOutOfRange.into());
    }
    let id = id.to_string();
    let there = fetch_one::<D, (i64,)>(conn, &HAS_DEPOSIT, &[id.as_str().into()]).await?;
    if there.is_some() {
        return Ok(());
    }
    let account = |owner, purpose| AccountKey {
        owner,
        purpose,
        currency: amount.currency,
    };
    let credit = add::<D>(
        conn,
        account(user.as_str(), AccountPurpose::User),
        amount.minor,
    )
    .await?;
    let debit = add::<D>(
        conn,
        account(OUTSIDE, AccountPurpose::Outside),
        -amount.minor,
    )
    .await?;
    // The outside account owes the sum of all users, so it leaves the range long before a user does.
    let room = -MONEY_MINOR_MAX..=MONEY_MINOR_MAX;
    if !room.contains(&credit.1) || !room.contains(&debit.1) {
        return Err(LedgerError::Overflow.into());
    }
    if let Some(action) = by {
        actions::enter::<D>(conn, action).await?;
    }
    let seq = D::next_direct(conn).await?;
    raced(D::execute(conn, &ENTER_DEPOSIT, &[id.as_str().into(), seq.into()]).await)?;
    let accounts = (debit.0, credit.0);
    let posting = PostingRow::direct(seq, "deposit", accounts, amount.minor, None, now);
    post::<D>(conn, &[posting]).await
}

/// Sum of all accounts of a currency.
pub(crate) async fn money_in<D: Dialect>(
    conn: &mut D::Connection,
    currency: Currency,
) -> Result<i64, WorkError> {
    let found = accounts_of::<D>(conn, std::iter::once(OUTSIDE)).await?;
    let key = AccountKey {
        owner: OUTSIDE,
        purpose: AccountPurpose::Outside,
        currency,
    };
    let (owner, purpose, currency) = key.columns();
    let own = found
        .iter()
        .find(|account| (&*account.1, &*account.2, &*account.3) == (owner, purpose, currency));
    Ok(own.map_or(0, |account| -account.4))
}

/// Adds an amount to an account, and creates the account if it is missing. Returns its id and its new balance.
pub(crate) async fn add<D: Dialect>(
    conn: &mut D::Connection,
    account: AccountKey<'_>,
    amount: i64,
) -> Result<(i64, i64), WorkError> {
    credit::<D>(conn, &[(account, amount)]).await?;
    lock_account::<D>(conn, account)
        .await?
        .ok_or_else(|| WorkError::damaged("an account is gone"))
}

/// Balances of a user, one per currency.
pub(crate) async fn balances<D: Dialect>(
    conn: &mut D::Connection,
    user: &UserId,
) -> Result<Vec<Balance>, WorkError> {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let accounts = accounts_of::<D>(conn, std::iter::once(user.as_str())).await?;
    for (_, _, purpose, currency, balance) in accounts {
        if purpose == AccountPurpose::User.name() {
            sums.entry(currency).or_default().0 = balance;
        } else if purpose == AccountPurpose::RefundsDue.name() {
            sums.entry(currency).or_default().1 = balance;
        }
    }
    let balance = |(currency, (available, refunds_due_minor)): (String, (i64, i64))| {
        let currency: Currency = currency
            .parse()
            .map_err(|_| WorkError::damaged(format!("account in {currency}")))?;
        Ok(Balance {
            available: Money::new(available, currency),
            refunds_due_minor,
        })
    };
    sums.into_iter().map(balance).collect()
}
