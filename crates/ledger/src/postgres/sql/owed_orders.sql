SELECT c.id, m.number, m.buyer, m.currency, sum(m.due)::bigint, sum(m.paid)::bigint
FROM (
    SELECT p.campaign, p.number, a.owner AS buyer, a.currency, p.amount AS due, 0 AS paid
    FROM accounts a JOIN postings p ON p.credit = a.id
    WHERE a.purpose = 'refunds_due' AND a.balance > 0
    UNION ALL
    SELECT p.campaign, p.number, a.owner, a.currency, 0, p.amount
    FROM accounts a JOIN postings p ON p.debit = a.id AND p.kind = 'refund_paid'
    WHERE a.purpose = 'refunds_due' AND a.balance > 0
) m
JOIN campaigns c ON c.ref = m.campaign
WHERE ($1 = '' OR c.owner = $2)
  AND (c.ref, m.number) > (coalesce((SELECT b.ref FROM campaigns b WHERE b.id = $3), 0), $4)
GROUP BY c.ref, c.id, m.number, m.buyer, m.currency
HAVING sum(m.due) > sum(m.paid)
ORDER BY c.ref, m.number
LIMIT $5
