//! Histories, newest first: orders, payments, postings, and money that came in or left.

use qiang_core::{
    id::PaymentRef,
    ports::{
        DepositRecord, HistoryPage, Movement, MovementKind, MovementQuery, OrderQuery,
        PaymentQuery, PaymentRecord, Posting, PostingKind, PostingQuery, UserOrder,
    },
    rows::{
        AccountPurpose, DepositColumns, MovementColumns, OldestColumns, PaymentColumns,
        PostingColumns, UserOrderColumns, deposit_of, movement_of, payment_of, posting_of,
        read_from, user_account_of, user_order_of,
    },
};
use rusqlite::{
    Connection, OptionalExtension as _, Transaction, TransactionBehavior, named_params, params,
};
use uuid::Uuid;

use super::payouts::reversed_minor;
use crate::error::DataFileError;

const ORDERS: &str = "SELECT c.id, c.title, c.currency, o.number, o.quantity, o.amount, o.state, o.granted_at, \
     o.returned_in_parts, o.cancelled_in_parts, o.user FROM orders o JOIN campaigns c ON c.ref = o.campaign";
/// Condition of each set of orders. All use the parameters `:user`, `:sale` and `:campaign`.
const OF_USER: &str = "o.user = :user AND (:sale IS NULL OR c.id = :sale)";
const OF_SALE: &str = ":user IS NULL AND o.campaign = (SELECT ref FROM campaigns WHERE id = :sale)";
const OF_ALL: &str = ":user IS NULL AND :sale IS NULL";

/// Text of a page of orders.
fn orders_text(of: &str) -> String {
    format!(
        "{ORDERS} WHERE {of} AND o.state LIKE :state AND o.granted_at >= :from AND o.granted_at <= :upto \
         AND (o.granted_at < :at \
              OR (o.campaign, o.number) < ((SELECT ref FROM campaigns WHERE id = :campaign), :number)) \
         ORDER BY o.granted_at DESC, o.campaign DESC, o.number DESC LIMIT :limit"
    )
}

/// A page of orders.
pub(crate) fn orders(
    conn: &Connection,
    query: &OrderQuery,
) -> Result<HistoryPage<UserOrder>, DataFileError> {
    let (at, campaign, number) = query.begins();
    let sale = query.campaign.map(|id| id.to_string());
    // Both statements as of the same commit.
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let (upto, mut from, mut bound) = (query.ends(), query.created.from_millis(), None);
    if query.is_bounded() {
        let of = match &sale {
            Some(_) => "campaign = (SELECT ref FROM campaigns WHERE id = ?4)",
            None => "?4 IS NULL",
        };
        let mut oldest = tx.prepare_cached(&oldest_text("granted_at", "orders", of))?;
        let range = params![from, upto, query.reads_max, sale];
        let oldest = oldest.query_row(range, |row| OldestColumns::try_from(row))?;
        bound = read_from(oldest, query.reads_max);
        from = bound.unwrap_or(from);
    }
    let of = match (&query.user, &sale) {
        (Some(_), _) => OF_USER,
        (None, Some(_)) => OF_SALE,
        (None, None) => OF_ALL,
    };
    let mut statement = tx.prepare_cached(&orders_text(of))?;
    let page = named_params! {
        ":user": query.user.as_ref().map(|user| user.as_str()),
        ":sale": sale,
        ":state": query.state_pattern(),
        ":from": from,
        ":upto": upto,
        ":at": at,
        ":campaign": campaign,
        ":number": number,
        ":limit": query.limit,
    };
    let rows = statement.query_map(page, |row| UserOrderColumns::try_from(row))?;
    let orders = rows.map(|row| Ok(user_order_of(row?)?));
    let orders = orders.collect::<Result<_, DataFileError>>()?;
    Ok(HistoryPage::new(orders, query.limit, bound))
}

/// Text that counts the newest rows of a range, up to a maximum, and finds the oldest of them.
fn oldest_text(time: &str, table: &str, of: &str) -> String {
    format!(
        "SELECT count(*), min({time}) FROM (SELECT {time} FROM {table} \
         WHERE {of} AND {time} >= ?1 AND {time} <= ?2 ORDER BY {time} DESC LIMIT ?3)"
    )
}

const PAYMENTS: &str = "SELECT c.id, c.owner, coalesce(y.currency, c.currency), y.number, o.user, y.outcome, y.amount, \
     y.at, y.payment FROM payments y JOIN campaigns c ON c.ref = y.campaign \
     JOIN orders o ON o.campaign = y.campaign AND o.number = y.number";
/// Condition of each set of payments.
const PAYMENTS_OF_USER: &str = "o.user = :user";
const PAYMENTS_OF_ALL: &str = ":user IS NULL";

/// Text of a page of payments.
fn payments_text(of: &str) -> String {
    format!(
        "{PAYMENTS} WHERE {of} AND y.outcome LIKE :outcome AND y.at >= :from AND y.at <= :upto \
         AND (y.at < :at OR (y.campaign, y.number, y.payment) \
              < ((SELECT ref FROM campaigns WHERE id = :campaign), :number, :payment)) \
         ORDER BY y.at DESC, y.campaign DESC, y.number DESC, y.payment DESC LIMIT :limit"
    )
}

/// A page of payments.
pub(crate) fn payments(
    conn: &Connection,
    query: &PaymentQuery,
) -> Result<HistoryPage<PaymentRecord>, DataFileError> {
    if let Some(reference) = &query.reference {
        let mut statement = conn.prepare_cached(&format!(
            "{PAYMENTS} WHERE y.payment = ?1 ORDER BY y.at DESC, y.campaign DESC, y.number DESC"
        ))?;
        let rows =
            statement.query_map([reference.as_str()], |row| PaymentColumns::try_from(row))?;
        let payments = rows.map(|row| Ok(payment_of(row?)?));
        let payments = payments.collect::<Result<_, DataFileError>>()?;
        return Ok(query.named(payments).into());
    }
    let (at, campaign, number, payment) = query.begins();
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let (upto, mut from, mut bound) = (query.ends(), query.created.from_millis(), None);
    if query.is_bounded() {
        let mut oldest = tx.prepare_cached(&oldest_text("at", "payments", "true"))?;
        let range = params![from, upto, query.reads_max];
        let oldest = oldest.query_row(range, |row| OldestColumns::try_from(row))?;
        bound = read_from(oldest, query.reads_max);
        from = bound.unwrap_or(from);
    }
    let of = match &query.user {
        Some(_) => PAYMENTS_OF_USER,
        None => PAYMENTS_OF_ALL,
    };
    let mut statement = tx.prepare_cached(&payments_text(of))?;
    let page = named_params! {
        ":user": query.user.as_ref().map(|user| user.as_str()),
        ":outcome": query.outcome_pattern(),
        ":from": from,
        ":upto": upto,
        ":at": at,
        ":campaign": campaign,
        ":number": number,
        ":payment": payment,
        ":limit": query.limit,
    };
    let rows = statement.query_map(page, |row| PaymentColumns::try_from(row))?;
    let payments = rows.map(|row| Ok(payment_of(row?)?));
    let payments = payments.collect::<Result<_, DataFileError>>()?;
    Ok(HistoryPage::new(payments, query.limit, bound))
}

const DEPOSITS: &str = "SELECT p.at, p.seq, p.amount, a.owner, a.currency, d.id, d.reference, NULL, NULL, NULL \
     FROM postings p JOIN accounts a ON a.id = p.credit JOIN deposits d ON d.posting = p.seq";
const PAYOUTS: &str = "SELECT p.at, p.seq, p.amount, a.owner, a.currency, NULL, t.reference, c.id, p.number, v.amount \
     FROM postings p JOIN accounts a ON a.id = p.debit JOIN payouts t ON t.posting = p.seq \
     LEFT JOIN payouts v ON t.kind = 'refund_paid' AND v.kind = 'refund_reversal' AND v.reference = t.reference \
     LEFT JOIN campaigns c ON c.ref = p.campaign";
/// The plus sign hides that the source is constant: SQLite would not see that the index has the order of the page.
const MOVEMENTS: &str = "AND +p.source = -1 AND p.at >= ?2 AND p.at <= ?3 AND (p.at < ?3 OR p.seq < ?4) \
     ORDER BY p.at DESC, p.source DESC, p.seq DESC LIMIT ?5";

/// Texts of movements of one kind: all of them, those of an account, and the one with a reference. The kind is no
/// parameter: SQLite uses a partial index for a constant only.
fn movement_texts(kind: MovementKind) -> [String; 3] {
    let name = kind.name();
    let (select, side, index, named) = match kind {
        MovementKind::Deposit => {
            let named = "d.reference = ?1".to_owned();
            (DEPOSITS, "credit", "postings_in", named)
        }
        MovementKind::Withdrawal | MovementKind::Refund => {
            let named = format!("t.kind = '{name}' AND t.reference = ?1");
            (PAYOUTS, "debit", "postings_out", named)
        }
    };
    // Without the name of the index, SQLite may read the movements of all users.
    let of_account = select.replace("postings p", &format!("postings p INDEXED BY {index}"));
    [
        format!("{select} WHERE p.kind = '{name}' AND ?1 IS NULL {MOVEMENTS}"),
        format!("{of_account} WHERE p.kind = '{name}' AND p.{side} = ?1 {MOVEMENTS}"),
        format!("{select} WHERE {named} AND p.source = -1"),
    ]
}

/// A page of deposits, withdrawals or refunds.
pub(crate) fn movements(
    conn: &Connection,
    query: &MovementQuery,
) -> Result<Vec<Movement>, DataFileError> {
    let [all, of_account, named] = movement_texts(query.kind);
    // All accounts as of the same commit.
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let mut rows: Vec<MovementColumns> = Vec::new();
    if let Some(reference) = &query.reference {
        let mut statement = tx.prepare_cached(&named)?;
        let found = statement.query_map([reference.as_str()], |row| row.try_into())?;
        rows = found.collect::<Result<_, _>>()?;
    } else {
        let (at, seq) = query.begins();
        let accounts = match &query.user {
            Some(user) => {
                let purpose = match query.kind {
                    MovementKind::Deposit | MovementKind::Withdrawal => AccountPurpose::User,
                    MovementKind::Refund => AccountPurpose::RefundsDue,
                };
                let mut accounts =
                    tx.prepare_cached("SELECT id FROM accounts WHERE owner = ?1 AND purpose = ?2")?;
                let found =
                    accounts.query_map([user.as_str(), purpose.name()], |row| row.get(0))?;
                found.collect::<Result<Vec<Option<i64>>, _>>()?
            }
            None => vec![None],
        };
        for account in accounts {
            let text = match account {
                Some(_) => &of_account,
                None => &all,
            };
            let mut statement = tx.prepare_cached(text)?;
            let page = params![account, query.created.from_millis(), at, seq, query.limit];
            for row in statement.query_map(page, |row| row.try_into())? {
                rows.push(row?);
            }
        }
    }
    let found: Result<Vec<_>, DataFileError> =
        rows.into_iter().map(|row| Ok(movement_of(row)?)).collect();
    let mut found = query.newest(found?);
    for movement in &mut found {
        if let Some(deposit) = movement.deposit {
            movement.reversed_minor = reversed_minor(&tx, deposit)?;
        }
    }
    Ok(found)
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
     LEFT JOIN payouts t ON p.source = -1 AND p.kind IN ('refund_paid', 'withdrawal', 'reversal', \
     'refund_reversal', 'transfer') AND t.posting = p.seq \
     LEFT JOIN payments y ON p.kind = 'payment' AND y.campaign = p.campaign AND y.number = p.number \
     AND y.outcome <> 'refund_due'";
const IN: &str = "p.credit = ?1";
/// The same expression as in the index `postings_out`; the index is not used for another one.
const OUT: &str = "(p.kind = 'return' OR p.kind = 'refund_paid' OR p.kind = 'withdrawal' OR p.kind = 'reversal' \
                   OR p.kind = 'transfer') \
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
        "SELECT p.amount, p.at, a.owner, a.currency, d.reference FROM deposits d \
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
    let mut statement = conn.prepare_cached(&format!(
        "{PAYMENTS} WHERE y.payment = ?1 ORDER BY y.at, y.campaign, y.number LIMIT 1"
    ))?;
    let found = statement.query_row([reference.as_str()], |row| PaymentColumns::try_from(row));
    Ok(found.optional()?.map(payment_of).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, DataFileKind};

    #[test]
    fn pages_are_read_in_their_order_from_an_index() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = qiang_core::time::Timestamp::from_millis(0);
        let conn = file::open_writer(&path, DataFileKind::Ledger, now).unwrap();
        let [all_deposits, own_deposits, named_deposit] = movement_texts(MovementKind::Deposit);
        let [all_refunds, own_refunds, named_refund] = movement_texts(MovementKind::Refund);
        for (text, search, sorts) in [
            (
                orders_text(OF_USER),
                "o USING INDEX orders_of_user (user=? AND granted_at>? AND granted_at<?)",
                false,
            ),
            (
                orders_text(OF_SALE),
                "o USING INDEX orders_of_sale (campaign=? AND granted_at>? AND granted_at<?)",
                false,
            ),
            (
                orders_text(OF_ALL),
                "o USING INDEX orders_by_time (granted_at>? AND granted_at<?)",
                false,
            ),
            (
                oldest_text("granted_at", "orders", "?4 IS NULL"),
                "orders USING COVERING INDEX orders_by_time (",
                false,
            ),
            (
                oldest_text("granted_at", "orders", "campaign = ?4"),
                "orders USING COVERING INDEX orders_of_sale (",
                false,
            ),
            (
                oldest_text("at", "payments", "true"),
                "payments USING COVERING INDEX payments_by_time (",
                false,
            ),
            (
                payments_text(PAYMENTS_OF_ALL),
                "y USING INDEX payments_by_time (at>? AND at<?)",
                false,
            ),
            (
                payments_text(PAYMENTS_OF_USER),
                "o USING COVERING INDEX orders_of_user (user=?)",
                true,
            ),
            (
                all_deposits,
                "p USING INDEX postings_listed (kind=? AND at>? AND at<?)",
                false,
            ),
            (
                own_deposits,
                "p USING INDEX postings_in (credit=? AND at>? AND at<?)",
                false,
            ),
            (
                named_deposit,
                "d USING INDEX deposits_reference (reference=?)",
                false,
            ),
            (
                all_refunds,
                "p USING INDEX postings_listed (kind=? AND at>? AND at<?)",
                false,
            ),
            (
                own_refunds,
                "p USING INDEX postings_out (debit=? AND at>? AND at<?)",
                false,
            ),
            (
                named_refund,
                "t USING PRIMARY KEY (kind=? AND reference=?)",
                false,
            ),
        ] {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
            let mut plan = Vec::new();
            let mut steps = statement.raw_query();
            while let Some(step) = steps.next().unwrap() {
                plan.push(step.get::<_, String>("detail").unwrap());
            }
            let search = format!("SEARCH {search}");
            let is_there = plan.iter().any(|step| step.starts_with(&search));
            assert!(is_there, "{text}\n{search}: {plan:?}");
            let is_sorted = plan.iter().any(|step| step.starts_with("USE TEMP B-TREE"));
            assert_eq!(is_sorted, sorts, "{text}\n{plan:?}");
            let scans = plan
                .iter()
                .any(|step| step.starts_with("SCAN") && !step.ends_with("(subquery-1)"));
            assert!(!scans, "{text}\n{plan:?}");
        }
    }

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
