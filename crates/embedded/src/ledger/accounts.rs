//! Accounts and double-entry postings.

use qiang_core::{
    id::UserId,
    money::{AMOUNT_MINOR_MAX, Currency, Money},
    ports::{Balance, LedgerError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use crate::error::StoreError;

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    User,
    Escrow,
    RefundsDue,
    Outside,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Escrow => "escrow",
            Self::RefundsDue => "refunds_due",
            Self::Outside => "outside",
        }
    }
}

/// The account that stands for everything outside Qiang.
pub(crate) const OUTSIDE: &str = "outside";
/// The source of postings that follow from no log entry.
pub(crate) const DIRECT: i64 = -1;

/// One movement of money: `amount` minor units, always positive, from one account to another.
pub(crate) struct Posting<'a> {
    pub(crate) source: i64,
    pub(crate) seq: i64,
    pub(crate) kind: &'a str,
    pub(crate) debit: i64,
    pub(crate) credit: i64,
    pub(crate) amount: i64,
    pub(crate) campaign: Option<i64>,
    pub(crate) number: Option<u32>,
    pub(crate) at: Timestamp,
}

/// Adds to an account, opening it if need be, and returns its row.
///
/// Three plain statements instead of one `INSERT … ON CONFLICT … RETURNING`: the latter makes SQLite keep a temporary
/// table for what it returns, which costs more than the rest.
pub(crate) fn add(
    conn: &Connection,
    owner: &str,
    purpose: Purpose,
    currency: Currency,
    amount: i64,
) -> Result<i64, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT id FROM accounts WHERE owner = ?1 AND purpose = ?2 AND currency = ?3",
    )?;
    let key = params![owner, purpose.name(), currency.code()];
    if let Some(id) = select.query_row(key, |row| row.get(0)).optional()? {
        let mut update =
            conn.prepare_cached("UPDATE accounts SET balance = balance + ?2 WHERE id = ?1")?;
        update.execute(params![id, amount])?;
        return Ok(id);
    }
    let mut insert = conn.prepare_cached(
        "INSERT INTO accounts (owner, purpose, currency, balance) VALUES (?1, ?2, ?3, ?4)",
    )?;
    Ok(insert.insert(params![owner, purpose.name(), currency.code(), amount])?)
}

/// Takes from an account that exists, and returns its row. Below zero is refused by the table. Not done by [`add`]:
/// SQLite would check the row that was to be inserted, which is below zero by itself.
pub(crate) fn take(
    conn: &Connection,
    owner: &str,
    purpose: Purpose,
    currency: Currency,
    amount: i64,
) -> Result<i64, StoreError> {
    let mut statement = conn.prepare_cached(
        "UPDATE accounts SET balance = balance - ?4 WHERE owner = ?1 AND purpose = ?2 AND currency = ?3 RETURNING id",
    )?;
    Ok(statement.query_row(
        params![owner, purpose.name(), currency.code(), amount],
        |row| row.get(0),
    )?)
}

/// Writes a posting; the accounts' balances are moved by [`add`].
pub(crate) fn post(conn: &Connection, posting: &Posting<'_>) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO postings (source, seq, kind, debit, credit, amount, campaign, number, at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let Posting {
        source,
        seq,
        kind,
        debit,
        credit,
        amount,
        campaign,
        number,
        at,
    } = posting;
    statement.execute(params![
        source,
        seq,
        kind,
        debit,
        credit,
        amount,
        campaign,
        number,
        at.as_millis()
    ])?;
    Ok(())
}

/// The next free place among postings that follow from no log entry.
pub(crate) fn next_direct(conn: &Connection) -> Result<i64, StoreError> {
    let mut statement =
        conn.prepare_cached("SELECT coalesce(max(seq), 0) + 1 FROM postings WHERE source = ?1")?;
    Ok(statement.query_row([DIRECT], |row| row.get(0))?)
}

/// What an account holds; 0 if there is none.
pub(crate) fn balance(
    conn: &Connection,
    owner: &str,
    purpose: Purpose,
    currency: Currency,
) -> Result<i64, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT balance FROM accounts WHERE owner = ?1 AND purpose = ?2 AND currency = ?3",
    )?;
    let balance = statement.query_row(params![owner, purpose.name(), currency.code()], |row| {
        row.get(0)
    });
    Ok(balance.optional()?.unwrap_or(0))
}

/// Puts money from outside into a user's account, once per id.
pub(crate) fn deposit(
    conn: &Connection,
    now: Timestamp,
    id: Uuid,
    user: &UserId,
    amount: Money,
) -> Result<(), StoreError> {
    if !(1..=AMOUNT_MINOR_MAX).contains(&amount.minor) {
        return Err(StoreError::Refused(LedgerError::AmountOutOfRange));
    }
    let seq = next_direct(conn)?;
    let mut statement =
        conn.prepare_cached("INSERT OR IGNORE INTO deposits (id, posting) VALUES (?1, ?2)")?;
    if statement.execute(params![id.to_string(), seq])? == 0 {
        return Ok(());
    }
    let held = balance(conn, user.as_str(), Purpose::User, amount.currency)?;
    let outside = balance(conn, OUTSIDE, Purpose::Outside, amount.currency)?;
    // Half of the range keeps room for what claims, refunds and payments will add. The outside owes
    // what all users have together, so it would leave the range long before a user does.
    let over = |sum: Option<i64>| sum.is_none_or(|sum| sum > i64::MAX / 2);
    if over(held.checked_add(amount.minor)) || over(amount.minor.checked_sub(outside)) {
        return Err(StoreError::Refused(LedgerError::Overflow));
    }
    let debit = add(
        conn,
        OUTSIDE,
        Purpose::Outside,
        amount.currency,
        -amount.minor,
    )?;
    let credit = add(
        conn,
        user.as_str(),
        Purpose::User,
        amount.currency,
        amount.minor,
    )?;
    let posting = Posting {
        source: DIRECT,
        seq,
        kind: "deposit",
        debit,
        credit,
        amount: amount.minor,
        campaign: None,
        number: None,
        at: now,
    };
    post(conn, &posting)
}

/// Everything a user has, one balance a currency.
pub(crate) fn balances(conn: &Connection, user: &UserId) -> Result<Vec<Balance>, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT currency, sum(balance) FILTER (WHERE purpose = 'user'), \
         sum(balance) FILTER (WHERE purpose = 'refunds_due') \
         FROM accounts WHERE owner = ?1 AND purpose IN ('user', 'refunds_due') GROUP BY currency ORDER BY currency",
    )?;
    let mut rows = statement.query([user.as_str()])?;
    let mut balances = Vec::new();
    while let Some(row) = rows.next()? {
        let currency: String = row.get(0)?;
        let currency = currency
            .parse()
            .map_err(|_| StoreError::damaged(format!("account in {currency}")))?;
        balances.push(Balance {
            available: Money::new(row.get::<_, Option<i64>>(1)?.unwrap_or(0), currency),
            refunds_due_minor: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
        });
    }
    Ok(balances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileKind;

    #[test]
    fn the_outside_has_room_for_every_deposit_that_is_taken() {
        let folder = tempfile::TempDir::new().unwrap();
        let conn =
            crate::file::open_writer(&folder.path().join("qiang.db"), FileKind::Ledger).unwrap();
        let give = |n: u128| {
            let user = UserId::new(&format!("user-{n}")).unwrap();
            let amount = Money::new(AMOUNT_MINOR_MAX, "CNY".parse().unwrap());
            let id = Uuid::from_u128(n);
            deposit(&conn, Timestamp::from_millis(0), id, &user, amount)
        };
        conn.execute_batch("BEGIN").unwrap();
        let refused = (1..10_000).find_map(|n| give(n).err().map(|error| (n, error)));
        let Some((n, StoreError::Refused(LedgerError::Overflow))) = refused else {
            panic!("{refused:?}")
        };
        let outside = balance(&conn, OUTSIDE, Purpose::Outside, "CNY".parse().unwrap()).unwrap();
        assert_eq!(outside, -AMOUNT_MINOR_MAX * (n as i64 - 1));
        assert!(outside >= -(i64::MAX / 2));
    }
}
