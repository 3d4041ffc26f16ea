//! One breach at a time, planted in a copy of a sound ledger. Exactly the checks that prove the opposite report it.
//! This shows that each check can fail.

use std::{collections::BTreeSet, fs, path::Path};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    amount_breaches, broken, cancellation_breaches, change_breaches, extension_breaches, history,
    large_breaches, list_breaches, payout_breaches, return_breaches, split_breaches,
};

/// Changes a ledger against its own constraints.
pub(crate) fn plant(db: &Path, sql: &str) {
    let conn = Connection::open(db).unwrap();
    conn.execute_batch(
        "PRAGMA ignore_check_constraints = ON;
         PRAGMA foreign_keys = OFF;
         DROP INDEX shares_once_per_user;
         DROP INDEX orders_once_per_user;
         DROP INDEX payments_pay_once;",
    )
    .unwrap();
    conn.execute_batch(&in_full(sql))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(conn.changes() > 0, "{sql}");
}

/// `@title` stands for the row of the campaign with that title, and `@user` for the account of a user. `@head` is the
/// end of the log, and `@begin` the start of the history.
fn in_full(sql: &str) -> String {
    let mut sql = sql
        .replace("@head", "(SELECT max(seq) FROM events)")
        .replace("@begin", "1800000000000");
    for title in [
        "normal",
        "returned in parts",
        "cancelled in parts",
        "held longer",
        "double",
        "equal",
        "lazy-empty",
        "lazy-closed",
        "lazy",
        "untouched",
        "draft",
        "single",
        "many",
        "free",
        "closing",
        "held",
        "tried",
        "restocked",
        "repriced",
        "amounts",
        "tolerant",
        "generous",
        "rush",
    ] {
        let row = format!("(SELECT ref FROM campaigns WHERE title = '{title}')");
        sql = sql.replace(&format!("@{title}"), &row);
    }
    for user in ["ann", "bob", "sender"] {
        let account = format!(
            "(SELECT id FROM accounts WHERE owner = '{user}' AND purpose = 'user' AND currency = 'CNY')"
        );
        sql = sql.replace(&format!("@{user}"), &account);
    }
    let outside = "(SELECT id FROM accounts WHERE purpose = 'outside' AND currency = 'CNY')";
    sql.replace("@outside", outside)
}

/// Appends an entry after all settled ones.
pub(super) fn entry(campaign: &str, kind: u8, values: &str) -> String {
    let columns = "(seq, at, campaign, kind, number, user, quantity, amount, note)";
    format!(
        "INSERT INTO events {columns} SELECT @head + 1, @begin + 301000, {campaign}, {kind}, {values};"
    )
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let granted = 1;
    let (paid, cancelled, expired, refund_due, paused, ended) = (2, 3, 4, 6, 7, 9);
    let returned = 16;
    let sql = str::to_owned;
    let rush_amount = "(SELECT amount FROM shares WHERE campaign = @rush AND number = 5003)";
    let rush_again = |user: &str| {
        entry(
            "@rush",
            granted,
            &format!("5003, '{user}', 1, {rush_amount}, NULL"),
        )
    };
    vec![
        // the log alone
        ("a gap", &["log_dense"], sql("UPDATE events SET seq = seq + 1 WHERE seq = @head")),
        ("an unknown kind", &["log_entries"], entry("@rush", 99, "NULL, NULL, NULL, NULL, NULL")),
        ("no such campaign", &["log_entries", "order_steps"], entry("99", cancelled, "1, 'ann', NULL, NULL, NULL")),
        ("an empty grant", &["log_entries"], entry("@held", granted, "2, 'zoe', 0, 0, NULL")),
        (
            "settled beyond the log",
            &["campaign_counts", "escrow", "grant_postings", "settled_position", "shares_follow_log"],
            sql("UPDATE settled SET seq = @head + 1"),
        ),
        (
            "settled set back",
            &["campaign_counts", "escrow", "postings_follow_log", "shares_follow_log"],
            sql("UPDATE settled SET seq = seq - 1"),
        ),
        (
            "a packet for two a user",
            &["campaign_rules"],
            sql("UPDATE campaigns SET per_user_limit = 2 WHERE ref = @normal"),
        ),
        ("paused when closed", &["campaign_life"], entry("@equal", paused, "NULL, NULL, NULL, NULL, NULL")),
        ("ended, not closed", &["campaign_life"], entry("@rush", ended, "NULL, NULL, NULL, NULL, NULL")),
        (
            "a number left out",
            &["grants_numbered"],
            entry("@held", cancelled, "1, NULL, NULL, NULL, NULL")
                + &entry("@held", granted, "3, 'zoe', 1, 11, NULL"),
        ),
        (
            "more taken out of the stock than was left",
            &["no_oversell"],
            entry("@restocked", 11, "NULL, NULL, NULL, -1, NULL"),
        ),
        ("a change of the stock by nothing", &["log_entries"], entry("@held", 11, "NULL, NULL, NULL, 0, NULL")),
        (
            "terms that no entry says",
            &["terms_sound", "terms_follow_log"],
            "INSERT INTO sale_terms VALUES (@held, 4, 1, 1, 2, 1, 1, 150)".to_owned(),
        ),
        (
            "terms that are not those of the last change",
            &["terms_sound"],
            "UPDATE campaigns SET per_user_limit = 1 WHERE ref = @repriced".to_owned(),
        ),
        (
            "terms that are not those of their entry",
            &["terms_follow_log"],
            "UPDATE sale_terms SET unit_price = 56 WHERE campaign = @repriced AND unit_price = 55".to_owned(),
        ),
        (
            "an order at the price of another time",
            &["order_prices"],
            "UPDATE events SET amount = 7 WHERE kind = 12 AND campaign = @repriced AND amount = 0;
             UPDATE sale_terms SET unit_price = 7 WHERE campaign = @repriced AND unit_price = 0"
                .to_owned(),
        ),
        (
            "more than the limit of that time",
            &["user_limit"],
            "UPDATE events SET quantity = 2 WHERE kind = 12 AND campaign = @repriced AND quantity = 3;
             UPDATE sale_terms SET per_user_limit = 2 WHERE campaign = @repriced AND per_user_limit = 3"
                .to_owned(),
        ),
        (
            "a change of a packet's stock",
            &["log_entries"],
            entry("@rush", 11, "NULL, NULL, NULL, 1, NULL"),
        ),
        ("oversold", &["no_oversell"], entry("@held", granted, "2, 'zoe', 1, 11, NULL")),
        (
            "oversold and overpaid",
            &["money_conserved", "no_oversell", "share_amounts"],
            entry("@double", granted, "5, 'zoe', 1, 1, NULL"),
        ),
        ("over the limit", &["user_limit"], entry("@many", granted, "5, 'ann', 2, 14, NULL")),
        ("twice a user", &["user_limit"], rush_again("user-0")),
        (
            "a retry granted anew",
            &["key_grants_once", "orders_follow_log"],
            sql("UPDATE events SET note = 'same' WHERE campaign = @many AND kind = 1 AND user = 'ann'"),
        ),
        (
            "too early",
            &["grants_while_open"],
            entry("@untouched", granted, "1, 'zoe', 1, 10, NULL"),
        ),
        (
            "while paused",
            &["grants_while_open"],
            entry("@rush", paused, "NULL, NULL, NULL, NULL, NULL") + &rush_again("zoe"),
        ),
        ("never opened", &["grants_while_open"], entry("@draft", granted, "1, 'zoe', 1, 10, NULL")),
        (
            "after the close",
            &["grants_while_open"],
            entry("@closing", granted, "4, 'zoe', 1, 30, NULL")
                + "UPDATE events SET at = @begin + 229000 WHERE seq = @head",
        ),
        (
            "units lost at the close",
            &["campaign_counts", "units_conserved"],
            sql("UPDATE events SET quantity = quantity - 1 WHERE campaign = @equal AND kind = 10"),
        ),
        (
            "money lost at the close",
            &["campaign_counts", "money_conserved", "refund_once"],
            sql("UPDATE events SET amount = amount - 1 WHERE campaign = @equal AND kind = 10"),
        ),
        ("another price", &["order_prices"], sql("UPDATE campaigns SET unit_price = 8 WHERE ref = @many")),
        ("expired when paid", &["order_steps"], entry("@single", expired, "1, NULL, NULL, NULL, NULL")),
        ("expired too early", &["order_steps"], entry("@held", expired, "1, NULL, NULL, NULL, NULL")),
        ("owed back when held", &["order_steps"], entry("@held", refund_due, "1, NULL, NULL, NULL, 'p-x'")),
        (
            "an order that is none",
            &["log_entries", "order_steps"],
            entry("@held", cancelled, "7, NULL, NULL, NULL, NULL"),
        ),
        // the ledger's tables
        ("a wrong count", &["campaign_counts"], sql("UPDATE campaigns SET granted = 6 WHERE ref = @normal")),
        ("a wrong phase", &["campaign_counts"], sql("UPDATE campaigns SET phase = 'paused' WHERE ref = @lazy")),
        (
            "a share gone",
            &["shares_complete"],
            sql("DELETE FROM shares WHERE campaign = @untouched AND number = 3"),
        ),
        (
            "a share too large",
            &["shares_complete", "shares_recomputed"],
            sql("UPDATE shares SET amount = amount + 1 WHERE campaign = @normal AND number = 10"),
        ),
        (
            "a share of a sale",
            &["shares_complete"],
            sql("INSERT INTO shares (campaign, number, amount) VALUES (@held, 1, 1)"),
        ),
        (
            "a share of nothing",
            &["shares_complete"],
            sql("INSERT INTO shares (campaign, number, amount) VALUES (99, 1, 1)"),
        ),
        (
            "another amount than the share's",
            &["share_amounts"],
            sql("UPDATE events SET amount = amount + 1 WHERE seq = @head"),
        ),
        (
            "too small for a lazy share",
            &["draws_recomputed", "lazy_bounds"],
            entry("@lazy", granted, "5, 'zoe', 1, 1, NULL"),
        ),
        (
            "a share in other hands",
            &["shares_follow_log"],
            sql("UPDATE shares SET user = 'mallory' WHERE campaign = @normal AND number = 2"),
        ),
        (
            "a share without a grant",
            &["shares_follow_log"],
            sql("UPDATE shares SET user = 'mallory', granted_at = 1 WHERE campaign = @untouched AND number = 1"),
        ),
        (
            "an order in other hands",
            &["orders_follow_log"],
            sql("UPDATE orders SET user = 'mallory' WHERE campaign = @many AND number = 1"),
        ),
        (
            "an order from nowhere",
            &["orders_follow_log"],
            sql("INSERT INTO orders SELECT campaign, 2, 'mallory', quantity, amount, state, one_per_user, granted_at, \
                 hold_until, updated_at, key, 0, 0, 0 FROM orders WHERE campaign = @held"),
        ),
        (
            "an order with another key",
            &["orders_follow_log"],
            sql("UPDATE orders SET key = 'another' WHERE campaign = @held"),
        ),
        ("an order gone", &["orders_follow_log"], sql("DELETE FROM orders WHERE campaign = @held")),
        ("a wrong state", &["order_states"], sql("UPDATE orders SET state = 'paid' WHERE campaign = @held")),
        (
            "paid twice",
            &["order_steps", "paid_once"],
            entry("@single", paid, "1, NULL, NULL, NULL, 'p-x'"),
        ),
        (
            "paid twice in the ledger",
            &["paid_once", "payments_follow_log", "refunds_due"],
            sql("UPDATE payments SET outcome = 'paid' WHERE payment = 'p-ann-again'"),
        ),
        (
            "one payment counted twice",
            &["paid_once"],
            entry("@single", refund_due, "1, NULL, NULL, NULL, 'p-ann-again'"),
        ),
        (
            "a refund due forgotten",
            &["payments_follow_log", "refunds_due"],
            sql("DELETE FROM payments WHERE payment = 'p-bob'"),
        ),
        (
            "a payment from nowhere",
            &["payments_follow_log", "refunds_due"],
            sql("INSERT INTO payments SELECT campaign, 1, 'p-x', 'refund_due', amount, at, currency \
                 FROM payments WHERE payment = 'p-bob'"),
        ),
        // the money
        (
            "a grant's posting gone",
            &["balances", "grant_postings"],
            sql("DELETE FROM postings WHERE kind = 'grant' AND campaign = @normal AND number = 1"),
        ),
        (
            "a grant's posting of another grant",
            &["grant_postings"],
            sql("UPDATE postings SET number = 9 WHERE kind = 'grant' AND campaign = @normal AND number = 1"),
        ),
        (
            "a grant into another pocket",
            &["balances", "grant_postings"],
            sql("UPDATE postings SET credit = @bob WHERE kind = 'grant' AND campaign = @normal AND number = 1"),
        ),
        (
            "a payment's posting of another order",
            &["payment_postings"],
            sql("UPDATE postings SET number = 9 WHERE kind = 'payment' AND campaign = @many"),
        ),
        ("returned when held", &["order_steps"], entry("@held", returned, "1, NULL, NULL, NULL, NULL")),
        ("returned twice", &["order_steps", "user_limit"], entry("@tried", returned, "1, NULL, NULL, NULL, NULL")),
        (
            "a return never posted",
            &["balances", "payment_postings"],
            sql("DELETE FROM postings WHERE kind = 'return' AND campaign = @tried AND number = 1"),
        ),
        (
            "a return that another user pays for",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET debit = @bob WHERE kind = 'return' AND campaign = @tried"),
        ),
        (
            "a return of less",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET amount = 1 WHERE kind = 'return' AND campaign = @tried AND number = 3"),
        ),
        (
            "a payment owed back to the seller",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET credit = @sender WHERE kind = 'refund_due' AND campaign = @closing"),
        ),
        (
            "a refund at another time",
            &["refund_once"],
            sql("UPDATE postings SET at = at + 1 WHERE kind = 'refund' AND campaign = @equal"),
        ),
        (
            "refunded twice",
            &["balances", "direct_postings", "refund_once"],
            sql("INSERT INTO postings SELECT -1, (SELECT max(seq) + 1 FROM postings WHERE source = -1), kind, debit, \
                 credit, amount, campaign, number, at FROM postings WHERE kind = 'refund' AND campaign = @equal"),
        ),
        (
            "a payment without an entry",
            &["postings_follow_log"],
            sql("INSERT INTO postings VALUES (0, @head + 1, 'payment', @outside, @sender, 5, @many, 1, 0);
                 UPDATE accounts SET balance = balance - 5 WHERE id = @outside;
                 UPDATE accounts SET balance = balance + 5 WHERE id = @sender"),
        ),
        (
            "a grant without an entry",
            &["direct_postings"],
            sql("INSERT INTO postings SELECT -1, max(seq) + 1, 'grant', @outside, @ann, 5, NULL, NULL, 0
                     FROM postings WHERE source = -1;
                 UPDATE accounts SET balance = balance - 5 WHERE id = @outside;
                 UPDATE accounts SET balance = balance + 5 WHERE id = @ann"),
        ),
        (
            "a residue of an open packet",
            &["direct_postings", "escrow"],
            sql("INSERT INTO postings SELECT -1, max(seq) + 1, 'residue', (SELECT a.id FROM accounts a
                     JOIN campaigns c ON c.id = a.owner WHERE c.title = 'lazy'), @sender, 5, @lazy, NULL, 0
                     FROM postings WHERE source = -1;
                 UPDATE accounts SET balance = balance - 5
                     WHERE owner = (SELECT id FROM campaigns WHERE title = 'lazy');
                 UPDATE accounts SET balance = balance + 5 WHERE id = @sender"),
        ),
        ("a deposit's id gone", &["deposits"], sql("DELETE FROM deposits WHERE posting = 1")),
        ("a deposit of nothing", &["deposits"], sql("INSERT INTO deposits (id, posting) VALUES ('x', 999)")),
        (
            "one packet funded twice, one never",
            &["packets_funded"],
            sql("UPDATE postings SET campaign = @equal WHERE kind = 'fund' AND campaign = @double"),
        ),
        (
            "from one currency into another",
            &["balances", "grant_postings", "posting_accounts"],
            sql("UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'other')
                     WHERE kind = 'grant' AND campaign = @normal AND number = 1"),
        ),
        (
            "money moved by nothing",
            &["balances"],
            sql("UPDATE accounts SET balance = balance - 1 WHERE id = @bob;
                 UPDATE accounts SET balance = balance + 1 WHERE id = @ann"),
        ),
        (
            "money made of nothing",
            &["balances", "zero_sum"],
            sql("UPDATE accounts SET balance = balance + 1 WHERE id = @ann"),
        ),
        (
            "an overdrawn user",
            &["balances", "overdrawn"],
            sql("UPDATE accounts SET balance = balance - 100000 WHERE id = @bob;
                 UPDATE accounts SET balance = balance + 100000 WHERE id = @ann"),
        ),
        (
            "an escrow of nothing",
            &["escrow"],
            sql("INSERT INTO accounts (owner, purpose, currency, balance) VALUES ('x', 'escrow', 'CNY', 0)"),
        ),
        (
            "two keys to one deposit",
            &["idempotency_keys"],
            sql("INSERT INTO idempotency_keys (scope, key, fingerprint, id, at)
                 SELECT scope, key || '-2', fingerprint, id, at FROM idempotency_keys"),
        ),
        (
            "a key with two meanings",
            &["idempotency_keys"],
            sql("ALTER TABLE idempotency_keys RENAME TO before;
                 CREATE TABLE idempotency_keys AS SELECT * FROM before;
                 INSERT INTO idempotency_keys (scope, key, fingerprint, id, at)
                     SELECT scope, key, fingerprint, '018f0000-0000-7000-8000-000000000000', at FROM before"),
        ),
        (
            "an entry in quarantine",
            &["nothing_aside"],
            sql("INSERT INTO set_aside
                 SELECT 0, @head + 1, id, format('%d 0 %s ended', @head + 1, id), 'no', NULL, 0, 0
                 FROM campaigns WHERE ref = @rush"),
        ),
        // the splits
        (
            "a draw that the seed did not make",
            &["draws_recomputed"],
            entry("@lazy", granted, "5, 'zoe', 1, 11, NULL"),
        ),
        (
            "a draw without an amount",
            &["draws_recomputed", "log_entries"],
            entry("@lazy", granted, "5, 'zoe', 1, NULL, NULL"),
        ),
        (
            "sums that leave 64 bits",
            &["readable"],
            sql("UPDATE events SET amount = 9000000000000000000 WHERE campaign = @rush AND kind = 1"),
        ),
    ]
}

#[test]
fn every_planted_breach_is_reported_by_the_checks_it_breaks_and_no_others() {
    let folder = TempDir::new().unwrap();
    let sound = folder.path().join("sound.db");
    history::load_and_stop(history::live(&sound));
    let (_, report) = broken(&sound);
    assert_eq!(report["ok"], true, "{report:#}");

    let planted = folder.path().join("planted.db");
    let mut failed = BTreeSet::new();
    let mut wrong = Vec::new();
    for (what, expected, sql) in [
        breaches(),
        amount_breaches::breaches(),
        payout_breaches::breaches(),
        return_breaches::breaches(),
        cancellation_breaches::breaches(),
        extension_breaches::breaches(),
        list_breaches::breaches(),
        change_breaches::breaches(),
        split_breaches::breaches(),
        large_breaches::breaches(),
        split_breaches::of_another_currency(&sound),
    ]
    .concat()
    {
        fs::copy(&sound, &planted).unwrap();
        plant(&planted, &sql);
        let (found, report) = broken(&planted);
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        if found != expected {
            let found: Vec<_> = report["checks"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|check| check["ok"] == false)
                .map(|check| format!("{}: {}", check["name"], check["offending"][0]))
                .collect();
            wrong.push(format!("{what}: expected {expected:?}, found {found:#?}"));
        }
        failed.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let checks = report["checks"].as_array().unwrap();
    for name in checks.iter().map(|check| check["name"].as_str().unwrap()) {
        assert!(failed.contains(name), "no breach of {name} was planted");
    }
}
