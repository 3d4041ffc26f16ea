//! One breach at a time, planted in a copy of a sound ledger without keys and constraints. Exactly the checks that
//! prove the opposite report it, and show the rows.

use std::collections::BTreeSet;

use super::{KINDS, broken, sound};

/// Each breach: its name, exactly the checks that must report it, text that the first one must show, and its changes.
/// `@3` stands for the row of campaign 3, which is shown as `#3`.
type Breach = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const BREACHES: [Breach; 37] = [
    (
        "an order paid by money that the sale does not accept",
        &["orders_paid"],
        "payment p-10 of order",
        "UPDATE campaigns SET payment_policy = NULL, payment_tolerance = NULL WHERE ref = @3",
    ),
    (
        "a return that owes the price instead of what was paid",
        &["balances", "payments_posted"],
        "campaign #@3: order",
        "UPDATE postings SET amount = 7 WHERE kind = 'return' AND campaign = @3",
    ),
    (
        "a share assigned twice",
        &["keys_unique", "counts_add_up", "numbers_dense", "shares_complete", "grants_posted"],
        "campaign #@2: 2 shares have the number 3",
        "INSERT INTO shares SELECT campaign, number, amount, 'mallory', granted_at FROM shares
             WHERE campaign = @2 AND number = 3",
    ),
    (
        "two shares to one user",
        &["limits_kept", "grants_posted"],
        "u0 has 2",
        "UPDATE shares SET \"user\" = 'u0' WHERE campaign = @2 AND \"user\" = 'u1'",
    ),
    (
        "a share in other hands",
        &["grants_posted"],
        "campaign #@12",
        "UPDATE shares SET \"user\" = 'mallory' WHERE campaign = @12 AND number = 2",
    ),
    (
        "a balance changed",
        &["balances", "zero_sum"],
        "(user of u1) has",
        "UPDATE accounts SET balance = balance + 1 WHERE owner = 'u1' AND purpose = 'user'",
    ),
    (
        "money moved by nothing",
        &["balances"],
        "(user of u0) has",
        "UPDATE accounts SET balance = balance - 1 WHERE owner = 'u0' AND purpose = 'user';
         UPDATE accounts SET balance = balance + 1 WHERE owner = 'u1' AND purpose = 'user'",
    ),
    (
        "money created, with a posting",
        &["positions_known"],
        "posting 8/1 is a deposit",
        "INSERT INTO postings (source, seq, kind, debit, credit, amount, at)
             SELECT 8, 1, 'deposit', d.id, k.id, 5, 0 FROM accounts d, accounts k
             WHERE d.purpose = 'outside' AND d.currency = k.currency AND k.purpose = 'user' AND k.owner = 'u1';
         UPDATE accounts SET balance = balance - 5 WHERE purpose = 'outside' AND currency = 'CNY';
         UPDATE accounts SET balance = balance + 5 WHERE owner = 'u1' AND purpose = 'user'",
    ),
    (
        "an order of more than the limit",
        &["limits_kept", "counts_add_up"],
        "campaign #@14",
        "UPDATE orders SET quantity = 2 WHERE campaign = @14 AND \"user\" = 'u1'",
    ),
    (
        "an order there twice",
        &["keys_unique", "limits_kept", "counts_add_up", "numbers_dense", "orders_paid"],
        "campaign #@4: 2 orders have the number 2",
        "INSERT INTO orders SELECT * FROM orders WHERE campaign = @4 AND number = 2",
    ),
    (
        "an order without a payment",
        &["orders_paid"],
        "campaign #@4",
        "DELETE FROM payments WHERE campaign = @4 AND number = 2",
    ),
    (
        "a payment there twice",
        &["keys_unique", "orders_paid"],
        "payment free-",
        "INSERT INTO payments SELECT * FROM payments WHERE campaign = @4",
    ),
    (
        "a return of a part gone",
        &["order_returns", "payments_posted"],
        "1 units in parts for 7; its returns are 0 for 0",
        "DELETE FROM order_returns",
    ),
    (
        "a return of a part there twice",
        &["keys_unique", "order_returns", "payments_posted"],
        "part part is there 2 times",
        "INSERT INTO order_returns SELECT * FROM order_returns",
    ),
    (
        "a cancelled unit of no cancellation",
        &["order_returns"],
        "2 units cancelled in parts; its cancellations are 1",
        "UPDATE orders SET cancelled_in_parts = 2 WHERE cancelled_in_parts = 1",
    ),
    (
        "a part for more than it is worth",
        &["order_returns", "payments_posted"],
        "its returns are 1 for 8",
        "UPDATE order_returns SET amount = amount + 1",
    ),
    (
        "the price as another amount",
        &["orders_paid"],
        "campaign #@3: payment p-0-again of order",
        "UPDATE payments SET currency = 'CNY' WHERE campaign = @3 AND payment = 'p-0-again'",
    ),
    (
        "oversold",
        &["counts_add_up"],
        "campaign #@4",
        "UPDATE campaigns SET supply = 1 WHERE ref = @4",
    ),
    (
        "a share never posted",
        &["grants_posted", "balances"],
        "campaign #@12",
        "DELETE FROM postings WHERE kind = 'grant' AND campaign = @12 AND number = 2",
    ),
    (
        "another seed",
        &["commitments", "shares_recomputed"],
        "campaign #@2: its commitment",
        "UPDATE campaigns SET seed = (SELECT other FROM (SELECT commitment AS other FROM campaigns WHERE ref = @2) x)
             WHERE ref = @2",
    ),
    (
        "a seed gone",
        &["campaign_rules", "commitments"],
        "campaign #@2: its split",
        "UPDATE campaigns SET seed = NULL WHERE ref = @2",
    ),
    (
        "a partition set back",
        &["positions_known"],
        "is after the settled position of partition 8",
        "UPDATE settled SET seq = 3 WHERE \"partition\" = 8",
    ),
    (
        "a posting counted back",
        &["direct_counted"],
        "the counter is at -1/1",
        "UPDATE direct_postings SET seq = 1",
    ),
    (
        "a posting to an account that is not there",
        &["posting_accounts", "balances", "grants_posted"],
        "to account 999999",
        "UPDATE postings SET credit = 999999 WHERE kind = 'grant' AND campaign = @12 AND number = 2",
    ),
    (
        "a deposit never posted",
        &["deposits", "balances", "direct_postings"],
        "(posting -1/1) is missing or wrong",
        "DELETE FROM postings WHERE kind = 'deposit' AND seq = 1",
    ),
    (
        "a refund that is owed again",
        &["payouts", "refunds_due"],
        "is owed",
        "DELETE FROM payouts WHERE kind = 'refund_paid'",
    ),
    (
        "a reversal of no deposit",
        &["payouts"],
        "reversal x",
        "UPDATE payouts SET reference = 'x' WHERE kind = 'reversal'",
    ),
    (
        "a posting without its deposit",
        &["deposits"],
        "",
        "DELETE FROM deposits WHERE posting = 1",
    ),
    (
        "a share posted to no user",
        &["grants_posted", "counts_add_up"],
        "",
        "UPDATE shares SET \"user\" = NULL, granted_at = NULL WHERE campaign = @12 AND number = 2",
    ),
    (
        "a share posted at another time",
        &["grants_posted"],
        "",
        "UPDATE postings SET at = at + 1 WHERE kind = 'grant' AND campaign = @12 AND number = 2",
    ),
    (
        "a packet's count of grants",
        &["counts_add_up", "parts_whole"],
        "8 are granted and 3 returned, and people have 7",
        "UPDATE campaigns SET granted = granted + 1 WHERE ref = @12",
    ),
    (
        "another price",
        &["orders_sound", "orders_paid"],
        "",
        "UPDATE orders SET amount = amount + 1 WHERE campaign = @4 AND number = 2",
    ),
    (
        "a longer hold",
        &["orders_sound"],
        "",
        "UPDATE orders SET hold_until = hold_until + 1 WHERE campaign = @4 AND number = 2",
    ),
    (
        "a payment never posted",
        &["payments_posted", "balances"],
        "",
        "DELETE FROM postings WHERE kind = 'payment'",
    ),
    (
        "an escrow with more than is left",
        &["escrow_left", "balances"],
        "",
        "UPDATE accounts SET balance = balance - 1 WHERE owner = 'u1' AND purpose = 'user';
         UPDATE accounts SET balance = balance + 1 WHERE purpose = 'escrow'
             AND owner = (SELECT id FROM campaigns WHERE ref = @12)",
    ),
    (
        "a part that counts more",
        &["parts_whole"],
        "",
        "UPDATE parts SET granted = granted + 1
             WHERE campaign = (SELECT r FROM (SELECT min(campaign) AS r FROM parts) x)",
    ),
    (
        "the count gone",
        &["direct_counted"],
        "the counter is at nothing",
        "DELETE FROM direct_postings",
    ),
];

#[test]
fn every_planted_breach_is_reported_by_the_checks_it_breaks_and_no_others() {
    let mut wrong = Vec::new();
    for kind in KINDS {
        let sound = sound(kind);
        for (what, expected, shown, sql) in BREACHES {
            let planted = kind.bare_copy(&sound);
            if what == BREACHES[0].0 {
                assert!(broken(&planted).0.is_empty(), "the copy is sound");
            }
            let mut sql = sql.to_owned();
            let mut shown = shown.to_owned();
            for n in [11, 12, 13, 14, 15, 1, 2, 3, 4] {
                let row = format!("(SELECT ref FROM campaigns WHERE title = 'campaign {n}')");
                sql = sql.replace(&format!("@{n}"), &row);
                // Campaigns are created in this order.
                let place = [1, 2, 3, 4, 11, 12, 13, 14]
                    .iter()
                    .position(|other| *other == n);
                shown = shown.replace(&format!("@{n}"), &(place.unwrap_or(8) + 1).to_string());
            }
            kind.run(&planted, &sql);
            let (found, report) = broken(&planted);
            let expected: BTreeSet<String> =
                expected.iter().map(|name| (*name).to_owned()).collect();
            if found != expected || !report.to_string().contains(&shown) {
                let checks = report["checks"].as_array().unwrap().iter();
                let found: Vec<_> = checks
                    .filter(|check| check["ok"] == false)
                    .map(|check| format!("{}: {}", check["name"], check["offending"]))
                    .collect();
                wrong.push(format!(
                    "{kind:?}, {what}: expected {expected:?} with {shown:?}, found {found:#?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
