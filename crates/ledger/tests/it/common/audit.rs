//! Audit of the ledger from its rows alone. It shares no code with the crate.

use super::Databases;

/// Faults that no ledger may have, each with the query that finds it.
const CHECKS: [(&str, &str); 19] = [
    (
        "an account that is not the sum of its postings",
        "SELECT count(*) FROM accounts a WHERE a.balance <> \
         coalesce((SELECT sum(p.amount) FROM postings p WHERE p.credit = a.id), 0) - \
         coalesce((SELECT sum(p.amount) FROM postings p WHERE p.debit = a.id), 0)",
    ),
    (
        "a currency whose accounts do not add up to 0",
        "SELECT count(*) FROM (SELECT currency FROM accounts GROUP BY currency HAVING sum(balance) <> 0) x",
    ),
    (
        "a posting between accounts of two currencies, or of none",
        "SELECT count(*) FROM postings p \
         LEFT JOIN accounts d ON d.id = p.debit LEFT JOIN accounts c ON c.id = p.credit \
         WHERE d.id IS NULL OR c.id IS NULL OR d.currency <> c.currency",
    ),
    (
        "a gap among the postings that follow from no entry",
        "SELECT count(*) FROM (SELECT count(*) AS n, coalesce(max(seq), 0) AS top FROM postings WHERE source = -1) x \
         JOIN direct_postings d ON NOT (x.n = x.top AND d.seq = x.top)",
    ),
    (
        "a posting of an entry that is not settled",
        "SELECT count(*) FROM postings p WHERE p.source >= 0 AND NOT EXISTS \
         (SELECT 1 FROM settled s WHERE s.partition = p.source AND s.seq >= p.seq)",
    ),
    (
        "a deposit without its posting",
        "SELECT count(*) FROM deposits t LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting \
         WHERE p.kind IS NULL OR p.kind <> 'deposit'",
    ),
    (
        "a posting without a deposit",
        "SELECT count(*) FROM postings p WHERE p.kind = 'deposit' AND NOT EXISTS \
         (SELECT 1 FROM deposits t WHERE t.posting = p.seq)",
    ),
    (
        "a share without its posting from the escrow to its user",
        "SELECT count(*) FROM shares s JOIN campaigns c ON c.ref = s.campaign WHERE s.user IS NOT NULL AND 1 <> \
         (SELECT count(*) FROM postings p JOIN accounts d ON d.id = p.debit JOIN accounts k ON k.id = p.credit \
          WHERE p.campaign = s.campaign AND p.number = s.number AND p.kind = 'grant' AND p.amount = s.amount \
          AND p.at = s.granted_at AND d.owner = c.id AND d.purpose = 'escrow' AND k.owner = s.user \
          AND k.purpose = 'user')",
    ),
    (
        "a posting without a granted share",
        "SELECT count(*) FROM postings p WHERE p.kind = 'grant' AND NOT EXISTS \
         (SELECT 1 FROM shares s WHERE s.campaign = p.campaign AND s.number = p.number AND s.user IS NOT NULL)",
    ),
    (
        "a packet whose count of grants is wrong",
        "SELECT count(*) FROM campaigns c WHERE c.kind = 'red_packet' AND c.granted <> \
         (SELECT count(*) FROM shares s WHERE s.campaign = c.ref AND s.user IS NOT NULL)",
    ),
    (
        "a sale whose count of grants is wrong",
        "SELECT count(*) FROM campaigns c WHERE c.kind = 'sale' AND c.granted <> \
         (SELECT coalesce(sum(o.quantity - o.returned_in_parts), 0) FROM orders o \
          WHERE o.campaign = c.ref AND o.state IN ('held', 'paid'))",
    ),
    (
        "an order with a price that its sale never had, or a wrong end of its hold",
        "SELECT count(*) FROM orders o JOIN campaigns c ON c.ref = o.campaign \
         WHERE o.hold_until <> o.granted_at + c.hold_ms + o.extension_ms OR o.extension_ms NOT BETWEEN 0 AND c.hold_ms \
         OR o.amount <> o.quantity * c.unit_price AND NOT EXISTS \
         (SELECT 1 FROM sale_terms t WHERE t.campaign = o.campaign AND o.amount = o.quantity * t.unit_price)",
    ),
    (
        "a user with more than any limit that the sale had",
        "SELECT count(*) FROM (SELECT o.campaign, sum(o.quantity - o.returned_in_parts) AS held FROM orders o \
         WHERE o.state IN ('held', 'paid') GROUP BY o.campaign, o.user) x JOIN campaigns c ON c.ref = x.campaign \
         WHERE x.held > c.per_user_limit AND x.held > \
         (SELECT coalesce(max(t.per_user_limit), 0) FROM sale_terms t WHERE t.campaign = x.campaign)",
    ),
    (
        "a paid order without its one payment, or a payment of an order that is not paid",
        "SELECT count(*) FROM orders o WHERE CASE WHEN o.state IN ('paid', 'returned') THEN 1 ELSE 0 END <> \
         (SELECT count(*) FROM payments p \
          WHERE p.campaign = o.campaign AND p.number = o.number AND p.outcome <> 'refund_due')",
    ),
    (
        "an order that has returned other units than its returns",
        "SELECT count(*) FROM orders o WHERE o.returned_in_parts <> \
         (SELECT coalesce(sum(r.quantity), 0) FROM order_returns r \
          WHERE r.campaign = o.campaign AND r.number = o.number AND r.kind = 'return')",
    ),
    (
        "an order with other cancelled units than its cancellations",
        "SELECT count(*) FROM orders o WHERE o.cancelled_in_parts <> \
         (SELECT coalesce(sum(r.quantity), 0) FROM order_returns r \
          WHERE r.campaign = o.campaign AND r.number = o.number AND r.kind = 'cancellation')",
    ),
    (
        "a payment without its posting",
        "SELECT count(*) FROM payments p JOIN campaigns c ON c.ref = p.campaign \
         JOIN orders o ON o.campaign = p.campaign AND o.number = p.number \
         WHERE p.amount > 0 AND NOT EXISTS (SELECT 1 FROM postings t \
          JOIN accounts d ON d.id = t.debit JOIN accounts k ON k.id = t.credit \
          WHERE t.campaign = p.campaign AND t.number = p.number AND t.at = p.at AND t.amount = p.amount \
          AND d.purpose = 'outside' AND t.kind = CASE p.outcome WHEN 'refund_due' THEN 'refund_due' ELSE 'payment' END \
          AND k.owner = CASE p.outcome WHEN 'refund_due' THEN o.user ELSE c.owner END)",
    ),
    (
        "an escrow that does not hold what is left",
        "SELECT count(*) FROM campaigns c LEFT JOIN accounts a ON a.owner = c.id AND a.purpose = 'escrow' \
         WHERE c.kind = 'red_packet' AND (a.balance IS NULL OR c.parts = 1 AND a.balance <> \
         CASE WHEN c.phase = 'closed' THEN 0 ELSE c.total - (SELECT coalesce(sum(s.amount), 0) FROM shares s \
          WHERE s.campaign = c.ref AND s.user IS NOT NULL) END)",
    ),
    (
        "a campaign that is not the sum of its parts",
        "SELECT count(*) FROM campaigns c WHERE c.parts > 1 AND NOT EXISTS (SELECT 1 FROM \
         (SELECT campaign, sum(granted) AS granted, sum(returned) AS returned, sum(refunded) AS refunded \
          FROM parts GROUP BY campaign) p WHERE p.campaign = c.ref AND p.granted = c.granted \
          AND p.returned = c.returned AND p.refunded = c.refunded)",
    ),
];

/// Audits the ledger of a database over one connection: a new connection costs more than a query.
pub(crate) async fn audit<S: Databases>(url: &str) {
    let counts = S::counts(url, &CHECKS.map(|(_, sql)| sql)).await;
    for ((what, _), count) in CHECKS.into_iter().zip(counts) {
        assert_eq!(count, 0, "{what}");
    }
}
