//! Breaches of payouts and refunds due, in any ledger with a refund `r-1`, a reversed refund, a transfer in
//! CNY, a withdrawal and a reversal.

use qiang_core::{
    id::{IdempotencyKey, UserId},
    money::Money,
    ports::{Payout, ReversalPart},
};
use uuid::Uuid;

use super::history::World;

/// Reverses a deposit of more than 30 cents in two parts, and then its remainder.
pub(super) fn reversals(world: &World, user: &UserId, deposit: Uuid) {
    let part = |key, minor| ReversalPart {
        key: IdempotencyKey::new(key).unwrap(),
        amount: Money::new(minor, "USD".parse().unwrap()),
    };
    for part in [Some(part("a", 20)), Some(part("b", 10)), None] {
        let user = user.clone();
        world.pay_out(&Payout::Reversal {
            user,
            deposit,
            part,
        });
    }
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = |text: &str| text.to_owned();
    vec![
        (
            "a refund without its row",
            &["payouts", "refunds_due"],
            sql("DELETE FROM payouts WHERE kind = 'refund_paid' AND reference = 'r-1'"),
        ),
        (
            "a refund of more than was due",
            &["refunds_due"],
            sql("UPDATE payouts SET amount = amount + 10 WHERE kind = 'refund_paid' AND reference = 'r-1';
                 UPDATE postings SET amount = amount + 10 WHERE (source, seq) = (-1, (SELECT posting FROM payouts
                     WHERE kind = 'refund_paid' AND reference = 'r-1'));
                 UPDATE accounts SET balance = balance + 10 WHERE purpose = 'outside' AND currency = 'CNY';
                 UPDATE accounts SET balance = balance - 10 WHERE purpose = 'refunds_due' AND id = (SELECT p.debit
                     FROM postings p JOIN payouts t ON t.posting = p.seq AND p.source = -1
                     WHERE t.kind = 'refund_paid' AND t.reference = 'r-1')"),
        ),
        (
            "a refund for another order",
            &["payouts", "refunds_due"],
            sql("UPDATE payouts SET number = number + 50 WHERE kind = 'refund_paid' AND reference = 'r-1'"),
        ),
        (
            "a withdrawal posted as a refund",
            &["payouts"],
            sql("UPDATE postings SET kind = 'refund_paid' WHERE kind = 'withdrawal'"),
        ),
        (
            "a withdrawal without its posting",
            &["balances", "direct_postings", "payouts"],
            sql("DELETE FROM postings WHERE kind = 'withdrawal'"),
        ),
        (
            "a reversal of another amount",
            &["balances", "payouts"],
            sql("UPDATE postings SET amount = amount - 1 WHERE kind = 'reversal';
                 UPDATE payouts SET amount = amount - 1 WHERE kind = 'reversal'"),
        ),
        (
            "reversals of more than the deposit",
            &["balances", "payouts"],
            sql("UPDATE postings SET amount = amount - 1 WHERE source = -1 AND seq IN (
                     SELECT d.posting FROM payouts t JOIN deposits d ON d.id = substr(t.reference, 1, 36)
                     WHERE t.kind = 'reversal')"),
        ),
        (
            "a reversal of no deposit",
            &["payouts"],
            sql("UPDATE payouts SET reference = 'x' || reference WHERE kind = 'reversal'"),
        ),
        (
            "a reversed refund of another order",
            &["payouts", "refunds_due"],
            sql("UPDATE payouts SET number = number + 50 WHERE kind = 'refund_reversal'"),
        ),
        (
            "a reversed refund that was never made",
            &["payouts"],
            sql("UPDATE payouts SET reference = 'x' || reference WHERE kind = 'refund_reversal'"),
        ),
        (
            "a reversal of less than its refund",
            &["balances", "payouts", "refunds_due"],
            sql("UPDATE postings SET amount = amount - 1 WHERE kind = 'refund_reversal';
                 UPDATE payouts SET amount = amount - 1 WHERE kind = 'refund_reversal'"),
        ),
        (
            "a refund that was reversed without a posting",
            &["balances", "direct_postings", "payouts", "refunds_due"],
            sql("DELETE FROM postings WHERE kind = 'refund_reversal'"),
        ),
        (
            "a transfer to the outside",
            &["balances", "payouts"],
            sql("UPDATE postings SET credit = (SELECT id FROM accounts WHERE purpose = 'outside' AND currency = 'CNY')
                 WHERE kind = 'transfer'"),
        ),
        (
            "a transfer without its row",
            &["payouts"],
            sql("DELETE FROM payouts WHERE kind = 'transfer'"),
        ),
        (
            "a transfer of more than its row says",
            &["payouts"],
            sql("UPDATE payouts SET amount = amount - 1 WHERE kind = 'transfer'"),
        ),
        (
            "a refund due without a reason",
            &["balances", "refunds_due"],
            sql("UPDATE accounts SET balance = balance + 7 WHERE id = (SELECT min(id) FROM accounts
                     WHERE purpose = 'refunds_due');
                 UPDATE accounts SET balance = balance - 7 WHERE purpose = 'outside' AND currency = 'CNY'"),
        ),
    ]
}
