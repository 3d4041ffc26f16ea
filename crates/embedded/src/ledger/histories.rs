//! Histories of users, newest first.

use qiang_core::{
    id::PaymentRef,
    ports::{
        DepositRecord, OrderQuery, PaymentRecord, Posting, PostingKind, PostingQuery, UserOrder,
    },
    rows::{
        AccountPurpose, DepositColumns, PaymentColumns, PostingColumns, UserOrderColumns,
        deposit_of, payment_of, posting_of, user_account_of, user_order_of,
    },
};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use super::payouts::reversed_minor;
use crate::error::DataFileError;

/// A page of a user's orders.
pub(crate) fn orders(
    conn: &Connection,
    query: &OrderQuery,
) -> Result<Vec<UserOrder>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT c.id, c.title, c.currency, o.number, o.quantity, o.amount, o.state, o.granted_at, \
         o.returned_in_parts, o.cancelled_in_parts FROM orders o \
         JOIN campaigns c ON c.ref = o.campaign WHERE o.user = ?1 AND o.state LIKE ?2 AND o.granted_at <= ?3 \
         AND (o.granted_at < ?3 OR (o.campaign, o.number) < ((SELECT ref FROM campaigns WHERE id = ?4), ?5)) \
         ORDER BY o.granted_at DESC, o.campaign DESC, o.number DESC LIMIT ?6",
    )?;
    let (at, campaign, number) = query.begins();
    let page = params![
        query.user.as_str(),
        query.state_pattern(),
        at,
        campaign,
        number,
        query.limit
    ];
    let rows = statement.query_map(page, |row| UserOrderColumns::try_from(row))?;
    rows.map(|row| Ok(user_order_of(&query.user, row?)?))
        .collect()
}

/// A page of what moved in a user's accounts: the newest of each, and of these the newest.
pub(crate) fn postings(
    conn: &Connection,
    query: &PostingQuery,
) -> Result<Vec<Posting>, DataFileError> {
    // All sides as of the same commit: in between, something may move or be listed.
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let mut accounts = tx.prepare_cached(
        "SELECT id, purpose, currency FROM accounts WHERE owner = ?1 AND purpose IN ('user', 'refunds_due')",
    )?;
    let rows = accounts.query_map([query.user.as_str()], |row| row.try_into())?;
    let rows: Vec<(i64, String, String)> = rows.collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for (id, purpose, currency) in rows {
        let Some(account) = user_account_of(&purpose, &currency) else {
            continue;
        };
        let mut sides = vec![(IN, true), (OUT, false)];
        if purpose == AccountPurpose::User.name()
            && query.kind.is_none_or(|it| it == PostingKind::Fund)
        {
            sides.push((FUNDS, false));
        }
        for (side, comes) in sides {
            let (at, source, seq) = query.begins(comes);
            let mut statement = tx.prepare_cached(&format!("{SELECT} WHERE {side} {PAGE}"))?;
            let page = params![id, query.kind_pattern(), at, source, seq, query.limit];
            let rows = statement.query_map(page, |row| PostingColumns::try_from(row))?;
            for row in rows {
                found.push(posting_of(account, comes, row?)?);
            }
        }
    }
    Ok(query.newest(found))
}

const SELECT: &str = "SELECT p.source, p.seq, p.kind, p.amount, p.at, c.id, p.number, \
     coalesce(d.id, t.reference, y.payment) FROM postings p LEFT JOIN campaigns c ON c.ref = p.campaign \
     LEFT JOIN deposits d ON p.source = -1 AND p.kind = 'deposit' AND d.posting = p.seq \
     LEFT JOIN payouts t ON p.source = -1 AND p.kind IN ('refund_paid', 'withdrawal', 'reversal') \
     AND t.posting = p.seq \
     LEFT JOIN payments y ON p.kind = 'payment' AND y.campaign = p.campaign AND y.number = p.number \
     AND y.outcome <> 'refund_due'";
const IN: &str = "p.credit = ?1";
/// The same expression as in the index `postings_out`; the index is not used for another one.
const OUT: &str = "(p.kind = 'return' OR p.kind = 'refund_paid' OR p.kind = 'withdrawal' OR p.kind = 'reversal') \
                   AND p.debit = ?1";
/// Money put into packets: a page of the listed postings, and all that are not listed yet.
const FUNDS: &str = "p.source = -1 AND p.seq IN (\
     SELECT seq FROM (SELECT seq FROM funds WHERE account = ?1 AND at <= ?3 \
                      AND (at < ?3 OR (-1, seq) < (?4, ?5)) ORDER BY at DESC, seq DESC LIMIT ?6) \
     UNION ALL \
     SELECT seq FROM postings \
     WHERE source = -1 AND seq > (SELECT posting FROM listed) AND kind = 'fund' AND debit = ?1)";
const PAGE: &str = "AND p.kind LIKE ?2 AND p.at <= ?3 AND (p.at < ?3 OR (p.source, p.seq) < (?4, ?5)) \
     ORDER BY p.at DESC, p.source DESC, p.seq DESC LIMIT ?6";

/// A deposit, if it was made.
pub(crate) fn deposit(conn: &Connection, id: Uuid) -> Result<Option<DepositRecord>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT p.amount, p.at, a.owner, a.currency FROM deposits d \
         JOIN postings p ON p.source = -1 AND p.seq = d.posting JOIN accounts a ON a.id = p.credit WHERE d.id = ?1",
    )?;
    let found = statement.query_row([id.to_string()], |row| DepositColumns::try_from(row));
    let Some(columns) = found.optional()? else {
        return Ok(None);
    };
    Ok(Some(deposit_of(columns, reversed_minor(conn, id)?)?))
}

/// The first payment of a reference, if there is one.
pub(crate) fn payment(
    conn: &Connection,
    reference: &PaymentRef,
) -> Result<Option<PaymentRecord>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT c.id, c.owner, coalesce(y.currency, c.currency), y.number, o.user, y.outcome, y.amount, y.at \
         FROM payments y JOIN campaigns c ON c.ref = y.campaign \
         JOIN orders o ON o.campaign = y.campaign AND o.number = y.number \
         WHERE y.payment = ?1 ORDER BY y.at, y.campaign, y.number LIMIT 1",
    )?;
    let found = statement.query_row([reference.as_str()], |row| PaymentColumns::try_from(row));
    Ok(found.optional()?.map(payment_of).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, DataFileKind};

    #[test]
    fn both_sides_of_an_account_are_found_without_looking_through_others() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = qiang_core::time::Timestamp::from_millis(0);
        let conn = file::open_writer(&path, DataFileKind::Ledger, now).unwrap();
        for (side, searches) in [
            (IN, &["p USING INDEX postings_in ("][..]),
            (OUT, &["p USING INDEX postings_out ("]),
            (
                FUNDS,
                &[
                    "p USING PRIMARY KEY (source=? AND seq=?)",
                    "funds USING PRIMARY KEY (account=? AND at<?)",
                    "postings USING PRIMARY KEY (source=? AND seq>?)",
                ],
            ),
        ] {
            let explain = format!("EXPLAIN QUERY PLAN {SELECT} WHERE {side} {PAGE}");
            let mut plan = conn.prepare(&explain).unwrap();
            let plan = plan.query_map([""; 6], |row| row.get::<_, String>("detail"));
            let plan: Vec<_> = plan.unwrap().map(Result::unwrap).collect();
            for search in searches {
                let search = format!("SEARCH {search}");
                let is_there = plan.iter().any(|step| step.starts_with(&search));
                assert!(is_there, "{search}: {plan:?}");
            }
        }
    }
}
