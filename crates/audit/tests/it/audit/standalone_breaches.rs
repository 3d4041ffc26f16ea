//! Breaches of a ledger alone.

/// Each breach: its name, exactly the checks that must report it, and its changes. `@3` stands for the row of campaign
/// 3.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], &'static str)> {
    vec![
        (
            "a quarantined entry",
            &["nothing_aside"],
            "INSERT INTO set_aside SELECT 8, 3, id, format('3 0 %s granted 99 zoe 1 5', id), 'no', NULL, 0, 0
                 FROM campaigns WHERE ref = @2",
        ),
        (
            "an entry quarantined after the settled position",
            &["nothing_aside", "positions_known"],
            "INSERT INTO set_aside SELECT 8, 99999, id, format('99999 0 %s ended', id), 'no', NULL, 0, 0
                 FROM campaigns WHERE ref = @2",
        ),
        (
            "settled set back",
            &["positions_known"],
            "UPDATE settled SET seq = 3 WHERE partition = 0",
        ),
        (
            "a partition forgotten",
            &["positions_known"],
            "DELETE FROM settled WHERE partition = 5",
        ),
        (
            "a posting of a kind that follows from nothing",
            &["positions_known"],
            "INSERT INTO postings SELECT 8, 1, 'deposit', debit, credit, amount, NULL, NULL, at
                 FROM postings WHERE kind = 'deposit' LIMIT 1;
             UPDATE accounts SET balance = balance - (SELECT amount FROM postings WHERE (source, seq) = (8, 1))
                 WHERE id = (SELECT debit FROM postings WHERE (source, seq) = (8, 1));
             UPDATE accounts SET balance = balance + (SELECT amount FROM postings WHERE (source, seq) = (8, 1))
                 WHERE id = (SELECT credit FROM postings WHERE (source, seq) = (8, 1))",
        ),
        (
            "an entry where no log is",
            &["positions_known"],
            "INSERT INTO events (seq, at, campaign, kind) VALUES (1, 0, @1, 0)",
        ),
        (
            "a part's count",
            &["parts_whole"],
            "UPDATE parts SET granted = granted + 1 WHERE campaign = @11 AND partition = 5",
        ),
        (
            "closed, with a part that is not",
            &["parts_whole"],
            "UPDATE parts SET phase = 'ended', returned = 0, refunded = 0 WHERE campaign = @13 AND partition = 0;
             UPDATE parts SET returned = (SELECT returned FROM campaigns WHERE ref = @13) - (SELECT sum(returned)
                 FROM parts WHERE campaign = @13 AND partition <> 3) WHERE campaign = @13 AND partition = 3",
        ),
        (
            "units returned by a part that has not closed",
            &["parts_whole"],
            "UPDATE parts SET returned = returned + 1 WHERE campaign = @14 AND partition = 3;
             UPDATE campaigns SET returned = returned + 1 WHERE ref = @14",
        ),
        (
            "a part too many",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (@14, 8, 'scheduled')",
        ),
        (
            "a part of a campaign in one piece",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (@4, 8, 'scheduled')",
        ),
        (
            "a part of nothing",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (99, 8, 'scheduled')",
        ),
        (
            "a draft that is whole",
            &["parts_whole"],
            "UPDATE campaigns SET phase = 'draft' WHERE ref = @14",
        ),
        (
            "granted to no user",
            &["counts_add_up"],
            "UPDATE campaigns SET granted = granted + 1 WHERE ref = @1",
        ),
        (
            "a unit lost at the close",
            &["counts_add_up"],
            "UPDATE campaigns SET returned = returned - 1 WHERE ref = @3",
        ),
        (
            "more than there is",
            &["counts_add_up"],
            "UPDATE campaigns SET supply = 1 WHERE ref = @4",
        ),
        (
            "more in parts than there is, when all are closed",
            &["counts_add_up"],
            "UPDATE campaigns SET supply = 11 WHERE ref = @13",
        ),
        (
            "back before the close",
            &["counts_add_up"],
            "UPDATE campaigns SET returned = 1 WHERE ref = @4",
        ),
        (
            "a draft that was granted from",
            &["counts_add_up"],
            "UPDATE campaigns SET phase = 'draft' WHERE ref = @4",
        ),
        (
            "claimed more than funded",
            &["counts_add_up", "packets_funded", "shares_complete", "commitments", "draws_recomputed",
              "escrow_left"],
            "UPDATE campaigns SET total = 200 WHERE ref = @1",
        ),
        (
            "a number left out, and a withheld one given",
            &["numbers_dense", "withheld_add_up"],
            "UPDATE orders SET number = 3 WHERE campaign = @4 AND number = 2;
             UPDATE payments SET number = 3 WHERE campaign = @4 AND number = 2",
        ),
        (
            "a missing number that a repair has recorded",
            &[],
            "UPDATE orders SET number = 5 WHERE campaign = @4 AND number = 2;
             UPDATE payments SET number = 5 WHERE campaign = @4 AND number = 2;
             INSERT INTO withheld_numbers SELECT partition, epoch, campaign, 2, 2, 1 FROM withheld",
        ),
        (
            "a missing number beside one that a repair has recorded",
            &["numbers_dense"],
            "UPDATE orders SET number = 6 WHERE campaign = @4 AND number = 2;
             UPDATE payments SET number = 6 WHERE campaign = @4 AND number = 2;
             INSERT INTO withheld_numbers SELECT partition, epoch, campaign, 2, 2, 1 FROM withheld",
        ),
        (
            "a missing number that was recorded for another campaign",
            &["numbers_dense", "withheld_add_up"],
            "UPDATE orders SET number = 3 WHERE campaign = @4 AND number = 2;
             UPDATE payments SET number = 3 WHERE campaign = @4 AND number = 2;
             INSERT INTO withheld_numbers SELECT partition, epoch, @3, 2, 2, 1 FROM withheld",
        ),
        (
            "a missing number that no repair has recorded",
            &["numbers_dense", "withheld_add_up"],
            "UPDATE orders SET number = 3 WHERE campaign = @4 AND number = 2;
             UPDATE payments SET number = 3 WHERE campaign = @4 AND number = 2;
             INSERT INTO withheld_numbers SELECT partition, 'another', campaign, 2, 2, 1 FROM withheld",
        ),
        (
            "more withheld than is left",
            &["withheld_add_up"],
            "UPDATE withheld SET units = 4",
        ),
        (
            "more withheld than is left, and released",
            &[],
            "UPDATE withheld SET units = 4, released_at = 1",
        ),
        (
            "an order with a number that is withheld, and was released",
            &["withheld_add_up"],
            "UPDATE withheld_numbers SET first_number = 2, last_number = 3;
             UPDATE withheld SET released_at = 1",
        ),
        (
            "an order with a number that is withheld, granted before the repair",
            &[],
            "UPDATE withheld_numbers SET first_number = 2, last_number = 3;
             UPDATE repairs SET at = (SELECT max(granted_at) FROM orders WHERE campaign = @4)",
        ),
        (
            "units that are withheld for orders granted before the repair",
            &[],
            "UPDATE withheld_numbers SET first_number = 1, last_number = 2;
             UPDATE withheld SET units = 5;
             UPDATE repairs SET at = (SELECT max(granted_at) FROM orders WHERE campaign = @4)",
        ),
        (
            "withheld after the close",
            &["withheld_add_up"],
            "INSERT INTO withheld SELECT partition, epoch, @3, 1, 0, NULL FROM withheld",
        ),
        (
            "withheld without a repair",
            &["withheld_add_up"],
            "DELETE FROM repairs",
        ),
        (
            "over the limit",
            &["limits_kept"],
            "UPDATE orders SET user = 'u0' WHERE campaign = @14 AND user = 'u1'",
        ),
        (
            "two shares",
            &["limits_kept", "grants_posted"],
            "UPDATE shares SET user = 'u0' WHERE campaign = @11 AND user = 'u1'",
        ),
        (
            "before the window",
            &["limits_kept"],
            "UPDATE campaigns SET starts_at = starts_at + 1 WHERE ref = @1",
        ),
        (
            "after the window",
            &["limits_kept"],
            "UPDATE campaigns SET ends_at = starts_at + 1 WHERE ref = @4",
        ),
        (
            "another price",
            &["orders_sound"],
            "UPDATE campaigns SET unit_price = 8 WHERE ref = @3",
        ),
        (
            "expired too early",
            &["orders_sound"],
            "UPDATE orders SET updated_at = granted_at WHERE campaign = @13 AND state = 'expired'",
        ),
        (
            "held for longer",
            &["orders_sound"],
            "UPDATE orders SET hold_until = hold_until + 1 WHERE campaign = @4 AND number = 1",
        ),
        (
            "paid without a payment",
            &["orders_paid"],
            "DELETE FROM payments WHERE campaign = @4 AND number = 2",
        ),
        (
            "paid when it was not",
            &["orders_paid"],
            "UPDATE orders SET updated_at = updated_at + 1 WHERE campaign = @4 AND number = 1",
        ),
        (
            "paid twice",
            &["orders_paid", "payments_posted", "refunds_due"],
            "UPDATE payments SET outcome = 'paid' WHERE campaign = @3 AND payment = 'p-0-again'",
        ),
        (
            "another currency that counts as the sale's",
            &["orders_paid", "payments_posted", "refunds_due"],
            "UPDATE payments SET currency = NULL WHERE campaign = @3 AND payment = 'p-9'",
        ),
        (
            "the price as another amount",
            &["orders_paid"],
            "UPDATE payments SET currency = 'CNY' WHERE campaign = @3 AND payment = 'p-0-again'",
        ),
        (
            "a payment of another price",
            &["orders_paid", "payments_posted"],
            "UPDATE payments SET amount = 1 WHERE campaign = @4",
        ),
        (
            "a share that was never posted",
            &["grants_posted", "balances"],
            "DELETE FROM postings WHERE kind = 'grant' AND campaign = @12 AND number = 2",
        ),
        (
            "a share posted for another",
            &["grants_posted"],
            "UPDATE postings SET number = 9 WHERE kind = 'grant' AND campaign = @12 AND number = 2",
        ),
        (
            "a share posted twice",
            &["grants_posted", "balances"],
            "INSERT INTO postings SELECT source, 1, kind, debit, credit, amount, campaign, number, at
                 FROM postings WHERE kind = 'grant' AND campaign = @2 AND number = 2",
        ),
        (
            "a payment that was never posted",
            &["payments_posted", "balances"],
            "DELETE FROM postings WHERE kind = 'refund_due' AND campaign = @13 AND at =
                 (SELECT at FROM payments WHERE campaign = @13 AND payment = 'p-1')",
        ),
        (
            "a return that was never posted",
            &["payments_posted", "balances"],
            "DELETE FROM postings WHERE kind = 'return' AND campaign = @3",
        ),
        (
            "a return posted for the seller",
            &["payments_posted", "balances"],
            "UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'u1' AND purpose = 'user')
                 WHERE kind = 'return' AND campaign = @3",
        ),
        (
            "returned in the ledger alone",
            &["payments_posted", "orders_paid", "refunds_due"],
            "UPDATE orders SET state = 'returned' WHERE campaign = @3 AND state = 'expired'",
        ),
        (
            "a payment into another pocket",
            &["payments_posted", "balances"],
            "UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'u9' OR owner = 'u6' LIMIT 1)
                 WHERE kind = 'payment' AND campaign = @3",
        ),
        (
            "a payment posted for nothing",
            &["payments_posted"],
            "UPDATE postings SET number = 99 WHERE kind = 'payment' AND campaign = @3 AND number = 1",
        ),
        (
            "a part's refund posted for another part",
            &["refunds_posted"],
            "UPDATE postings SET source = 5, seq = 1 WHERE kind = 'refund' AND campaign = @12 AND source = 0",
        ),
        (
            "refunded in two pieces",
            &["refunds_posted"],
            "INSERT INTO postings SELECT source, 1, kind, debit, credit, 1, campaign, number, at
                 FROM postings WHERE kind = 'refund' AND campaign = @2;
             UPDATE postings SET amount = amount - 1 WHERE kind = 'refund' AND campaign = @2 AND seq > 1",
        ),
        (
            "refunded to another user",
            &["refunds_posted", "balances"],
            "UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'u1' AND purpose = 'user')
                 WHERE kind = 'refund' AND campaign = @2",
        ),
        (
            "left in escrow after the close",
            &["escrow_left", "balances"],
            "UPDATE accounts SET balance = balance + 1 WHERE owner = (SELECT id FROM campaigns WHERE ref = @12);
             UPDATE accounts SET balance = balance - 1 WHERE owner = 'u1' AND purpose = 'user'",
        ),
        (
            "an escrow of nothing",
            &["escrow_left"],
            "INSERT INTO accounts (owner, purpose, currency, balance) VALUES ('x', 'escrow', 'CNY', 0)",
        ),
        (
            "a draw that the seed did not make",
            &["draws_recomputed", "grants_posted"],
            "UPDATE shares SET amount = amount + number * 2 - 3 WHERE campaign = @1 AND number <= 2",
        ),
        (
            "a draw from a packet of which a repair had withheld something",
            &["grants_posted"],
            "UPDATE shares SET amount = amount + number * 2 - 3 WHERE campaign = @1 AND number <= 2;
             INSERT INTO withheld SELECT partition, epoch, @1, 1, 0, 1 FROM withheld LIMIT 1",
        ),
        (
            "unique keys that are missing",
            &["keys_unique"],
            "ALTER TABLE settled RENAME TO before;
             CREATE TABLE settled AS SELECT * FROM before;
             INSERT INTO settled SELECT * FROM before WHERE partition = 5",
        ),
    ]
}
