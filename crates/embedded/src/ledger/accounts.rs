//! Accounts and double-entry postings.

use qiang_core::{
    id::{PaymentRef, UserId},
    money::{AMOUNT_MINOR_MAX, Currency, MONEY_MINOR_MAX, Money},
    ports::{Action, Balance, LedgerError},
    rows::{AccountKey, AccountPurpose, DIRECT, OUTSIDE, PostingRow},
    time::Timestamp,
};
use rusqlite::{
    CachedStatement, Connection, ErrorCode, OptionalExtension as _, params, params_from_iter,
};
use uuid::Uuid;

use super::{
    actions,
    bound_values::{BoundValues, execute_rows},
};
use crate::error::DataFileError;

/// Prepared statements that change account balances.
///
/// Three plain statements replace one `INSERT … ON CONFLICT … RETURNING`. For the latter, SQLite keeps a temporary
/// table for the returned rows, which costs more than the rest. The first statement reads only an index.
pub(crate) struct Accounts<'c> {
    conn: &'c Connection,
    select: CachedStatement<'c>,
    update: CachedStatement<'c>,
    insert: CachedStatement<'c>,
}

impl<'c> Accounts<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> Result<Self, DataFileError> {
        Ok(Self {
            conn,
            select: conn.prepare_cached(
                "SELECT id FROM accounts WHERE owner = ?1 AND purpose = ?2 AND currency = ?3",
            )?,
            update: conn.prepare_cached(MOVE)?,
            insert: conn.prepare_cached(OPEN)?,
        })
    }

    /// Adds an amount to an account, creates the account if it is missing, and returns its id. The table refuses a
    /// negative balance of every account but the outside one.
    pub(crate) fn add(&mut self, key: AccountKey<'_>, amount: i64) -> Result<i64, DataFileError> {
        let found = self.select.query_row(key.columns(), |row| row.get(0));
        let Some(id) = found.optional()? else {
            let (owner, purpose, currency) = key.columns();
            let row = params![owner, purpose, currency, amount];
            return Ok(self.insert.insert(row)?);
        };
        if amount == 0 {
            return Ok(id);
        }
        match self.update.execute([id, amount]) {
            Err(error)
                if key.purpose == AccountPurpose::Escrow
                    && error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
            {
                let (owner, needed) = (key.owner, amount.unsigned_abs());
                let held = balance(self.conn, key)?;
                let reason = format!("escrow of {owner} holds {held}, less than {needed}");
                Err(DataFileError::damaged(reason))
            }
            updated => updated.map(|_| id).map_err(DataFileError::from),
        }
    }
}

/// Prepared statements that fund red packets.
pub(crate) struct FundingAccounts<'c> {
    find: CachedStatement<'c>,
    update: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    post: CachedStatement<'c>,
}

/// The sender account that funds a red packet.
#[derive(Clone, Copy)]
pub(crate) struct FundingAccount {
    id: i64,
    /// Balance in minor units.
    pub(crate) held: i64,
}

impl<'c> FundingAccounts<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> Result<Self, DataFileError> {
        Ok(Self {
            find: conn.prepare_cached(FIND)?,
            update: conn.prepare_cached(MOVE)?,
            insert: conn.prepare_cached(OPEN)?,
            post: conn.prepare_cached(POST)?,
        })
    }

    /// A sender's account, if it exists.
    pub(crate) fn purse(
        &mut self,
        key: AccountKey<'_>,
    ) -> Result<Option<FundingAccount>, DataFileError> {
        let found = self.find.query_row(key.columns(), |row| {
            let (id, held) = (row.get(0)?, row.get(1)?);
            Ok(FundingAccount { id, held })
        });
        Ok(found.optional()?)
    }

    /// Moves a red packet's total from the sender's account to a new escrow account, and posts it.
    pub(crate) fn fund(
        &mut self,
        purse: FundingAccount,
        escrow: AccountKey<'_>,
        total: i64,
        (seq, campaign, now): (i64, i64, Timestamp),
    ) -> Result<(), DataFileError> {
        self.update.execute([purse.id, -total])?;
        let (owner, purpose, currency) = escrow.columns();
        let credit = self
            .insert
            .insert(params![owner, purpose, currency, total])?;
        let ids = (purse.id, credit);
        let posting = PostingRow::direct(seq, "fund", ids, total, Some(campaign), now);
        let columns = posting.columns().map(BoundValues);
        self.post.execute(params_from_iter(columns))?;
        Ok(())
    }
}

const FIND: &str =
    "SELECT id, balance FROM accounts WHERE owner = ?1 AND purpose = ?2 AND currency = ?3";
const MOVE: &str = "UPDATE accounts SET balance = balance + ?2 WHERE id = ?1";
const OPEN: &str =
    "INSERT INTO accounts (owner, purpose, currency, balance) VALUES (?1, ?2, ?3, ?4)";
const POST: &str = "INSERT INTO postings (source, seq, kind, debit, credit, amount, campaign, number, at) \
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Balance of an account; 0 if it does not exist.
pub(crate) fn balance(conn: &Connection, key: AccountKey<'_>) -> Result<i64, DataFileError> {
    let mut statement = conn.prepare_cached(FIND)?;
    let found = statement.query_row(key.columns(), |row| row.get(1));
    Ok(found.optional()?.unwrap_or(0))
}

/// Sum of all accounts of a currency.
pub(crate) fn money_in(conn: &Connection, currency: Currency) -> Result<i64, DataFileError> {
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, currency);
    Ok(-balance(conn, outside)?)
}

/// Inserts postings. [`Accounts::add`] changes the balances.
pub(crate) fn post(conn: &Connection, postings: &[PostingRow]) -> Result<(), DataFileError> {
    execute_rows(conn, POST, postings.iter().map(PostingRow::columns))?;
    let direct = postings.iter().filter(|posting| posting.source == DIRECT);
    if let Some(last) = direct.map(|posting| posting.seq).max() {
        let mut statement = conn.prepare_cached("UPDATE direct_postings SET seq = ?1")?;
        statement.execute([last])?;
    }
    Ok(())
}

/// Next free sequence number of postings without a log entry.
pub(crate) fn next_direct(conn: &Connection) -> Result<i64, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT 1 + max(coalesce((SELECT seq FROM direct_postings), 0), \
         coalesce((SELECT max(seq) FROM postings WHERE source = ?1), 0))",
    )?;
    Ok(statement.query_row([DIRECT], |row| row.get(0))?)
}

/// Deposits money from outside into a user's account, once per id.
pub(crate) fn deposit(
    conn: &Connection,
    now: Timestamp,
    id: Uuid,
    (user, amount): (&UserId, Money),
    by: Option<&Action>,
) -> Result<(), DataFileError> {
    if !(1..=AMOUNT_MINOR_MAX).contains(&amount.minor) {
        return Err(DataFileError::Refused(LedgerError::AmountOutOfRange));
    }
    let seq = next_direct(conn)?;
    let mut statement =
        conn.prepare_cached("INSERT OR IGNORE INTO deposits (id, posting) VALUES (?1, ?2)")?;
    if statement.execute(params![id.to_string(), seq])? == 0 {
        return Ok(());
    }
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, amount.currency);
    let own = AccountKey::new(user.as_str(), AccountPurpose::User, amount.currency);
    let moves = [(outside, -amount.minor), (own, amount.minor)];
    // The outside account owes the sum of all users, so it leaves the range long before a user does.
    let room = -MONEY_MINOR_MAX..=MONEY_MINOR_MAX;
    for (key, amount) in moves {
        let held = balance(conn, key)?;
        if !held
            .checked_add(amount)
            .is_some_and(|sum| room.contains(&sum))
        {
            return Err(DataFileError::Refused(LedgerError::Overflow));
        }
    }
    let mut accounts = Accounts::prepare(conn)?;
    let debit = accounts.add(outside, -amount.minor)?;
    let ids = (debit, accounts.add(own, amount.minor)?);
    let posting = PostingRow::direct(seq, "deposit", ids, amount.minor, None, now);
    post(conn, &[posting])?;
    by.map_or(Ok(()), |action| actions::enter(conn, action))
}

/// Deposit with this payment reference, if it exists: id, amount, owner and currency.
pub(crate) fn deposit_named(
    conn: &Connection,
    reference: &PaymentRef,
) -> Result<Option<(String, i64, String, String)>, DataFileError> {
    let mut find = conn.prepare_cached(
        "SELECT d.id, p.amount, a.owner, a.currency FROM deposits d \
         JOIN postings p ON p.source = -1 AND p.seq = d.posting JOIN accounts a ON a.id = p.credit \
         WHERE d.reference = ?1",
    )?;
    let found = find.query_row([reference.as_str()], |row| row.try_into());
    Ok(found.optional()?)
}

/// Sets the payment reference of a deposit.
pub(crate) fn name_deposit(
    conn: &Connection,
    id: Uuid,
    reference: &PaymentRef,
) -> Result<(), DataFileError> {
    conn.prepare_cached("UPDATE deposits SET reference = ?2 WHERE id = ?1")?
        .execute(params![id.to_string(), reference.as_str()])?;
    Ok(())
}

/// Balances of a user, one per currency.
pub(crate) fn balances(conn: &Connection, user: &UserId) -> Result<Vec<Balance>, DataFileError> {
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
            .map_err(|_| DataFileError::damaged(format!("account in {currency}")))?;
        balances.push(Balance {
            available: Money::new(row.get::<_, Option<i64>>(1)?.unwrap_or(0), currency),
            refunds_due_minor: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
        });
    }
    Ok(balances)
}

#[cfg(test)]
mod tests {
    use qiang_core::ports::Payout;

    use super::*;
    use crate::{file::DataFileKind, ledger::payouts};

    #[test]
    fn the_outside_has_no_room_for_a_payout_beyond_its_range() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = Timestamp::from_millis(0);
        let conn = crate::file::open_writer(&path, DataFileKind::Ledger, now).unwrap();
        let conn = conn.unfenced();
        let user = UserId::new("user").unwrap();
        let amount = Money::new(1_000, "CNY".parse().unwrap());
        deposit(&conn, now, Uuid::from_u128(1), (&user, amount), None).unwrap();
        // As if sellers owed this sum for returned orders.
        let outside = "UPDATE accounts SET balance = ?1 WHERE purpose = 'outside'";
        conn.execute(outside, [MONEY_MINOR_MAX - 700]).unwrap();
        let withdraw = |name: &str, minor| {
            let payout = Payout::Withdrawal {
                reference: PaymentRef::new(name).unwrap(),
                user: user.clone(),
                amount: Money::new(minor, amount.currency),
            };
            payouts::pay_out(&conn, now, &payout, None).map(|paid| paid.fresh)
        };
        let refused = withdraw("w", 701);
        assert!(
            matches!(refused, Err(DataFileError::Refused(LedgerError::Overflow))),
            "{refused:?}"
        );
        assert!(withdraw("w", 700).unwrap());
        let own = AccountKey::new("user", AccountPurpose::User, amount.currency);
        assert_eq!(balance(&conn, own).unwrap(), 300);
    }

    #[test]
    fn the_outside_has_room_for_every_deposit_that_is_taken() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = Timestamp::from_millis(0);
        let conn = crate::file::open_writer(&path, DataFileKind::Ledger, now).unwrap();
        let conn = conn.unfenced();
        let give = |n: u128| {
            let user = UserId::new(&format!("user-{n}")).unwrap();
            let amount = Money::new(AMOUNT_MINOR_MAX, "CNY".parse().unwrap());
            let id = Uuid::from_u128(n);
            deposit(&conn, now, id, (&user, amount), None)
        };
        conn.execute_batch("BEGIN").unwrap();
        let refused = (1..10_000).find_map(|n| give(n).err().map(|error| (n, error)));
        let Some((n, DataFileError::Refused(LedgerError::Overflow))) = refused else {
            panic!("{refused:?}")
        };
        let outside = AccountKey {
            owner: OUTSIDE,
            purpose: AccountPurpose::Outside,
            currency: "CNY".parse().unwrap(),
        };
        let outside = balance(&conn, outside).unwrap();
        assert_eq!(outside, -AMOUNT_MINOR_MAX * (n as i64 - 1));
        assert!(outside >= -(i64::MAX / 2));
    }
}
