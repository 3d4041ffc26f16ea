-- The limit counts orders: a page has all currencies in which a refund of an order is due.
SELECT r.id, r.number, r.buyer, r.currency, r.due, r.paid
FROM (
    SELECT c.ref, c.id, m.number, m.buyer, m.currency, CAST(sum(m.due) AS SIGNED) AS due,
           CAST(sum(m.paid) AS SIGNED) AS paid,
           dense_rank() OVER (ORDER BY c.ref, m.number) AS place
    FROM (
        SELECT p.campaign, p.number, a.owner AS buyer, a.currency, p.amount AS due, 0 AS paid
        FROM accounts a JOIN postings p ON p.credit = a.id
        WHERE a.purpose = 'refunds_due' AND a.balance > 0 AND p.kind <> 'refund_reversal'
        UNION ALL
        SELECT p.campaign, p.number, a.owner, a.currency, 0, p.amount
        FROM accounts a JOIN postings p ON p.debit = a.id AND p.kind = 'refund_paid'
        WHERE a.purpose = 'refunds_due' AND a.balance > 0
        UNION ALL
        -- A reversed refund was not paid.
        SELECT p.campaign, p.number, a.owner, a.currency, 0, -p.amount
        FROM accounts a JOIN postings p ON p.credit = a.id AND p.kind = 'refund_reversal'
        WHERE a.purpose = 'refunds_due' AND a.balance > 0
    ) m
    JOIN campaigns c ON c.ref = m.campaign
    WHERE (? = '' OR c.owner = ?)
      AND (c.ref, m.number) > (coalesce((SELECT b.ref FROM campaigns b WHERE b.id = ?), 0), ?)
    GROUP BY c.ref, c.id, m.number, m.buyer, m.currency
    HAVING sum(m.due) > sum(m.paid)
) r
WHERE r.place <= ?
ORDER BY r.ref, r.number, r.currency
