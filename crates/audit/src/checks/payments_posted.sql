-- Every payment moves the received money from outside to the seller, or to the buyer's refunds due. Every return moves
-- the money that paid its units from the seller to the buyer's refunds due. No other posting is a payment or a return.
-- Payments for a discarded order are due to its buyer.
SELECT payments FROM temp.totals;

SELECT format('campaign #%d: order %d has %d movements of the kind %s, and %d postings as they should be',
              campaign, number, sum(paid), kind, sum(posted))
FROM (
    SELECT p.campaign, p.number, CASE p.outcome WHEN 'refund_due' THEN 'refund_due' ELSE 'payment' END AS kind, p.at,
           p.amount, coalesce(p.currency, c.currency) AS currency, 1 AS paid, 0 AS posted
    FROM payments p
    LEFT JOIN campaigns c ON c.ref = p.campaign
    WHERE p.amount > 0
    UNION ALL
    SELECT r.campaign, r.number, 'return', r.at, r.amount, c.currency, 1, 0
    FROM order_returns r
    LEFT JOIN campaigns c ON c.ref = r.campaign
    WHERE r.amount > 0
    UNION ALL
    -- The last return took the units that partial returns had left.
    SELECT campaign, number, 'return', updated_at, paid - owed_in_parts, currency, 1, 0
    FROM temp.returned
    WHERE state = 'returned' AND paid > owed_in_parts
    UNION ALL
    SELECT p.campaign, p.number, p.kind, p.at, p.amount, p.currency, 0,
           (p.debtor, p.debited, p.creditor, p.credited)
               IS (CASE p.kind WHEN 'return' THEN c.owner ELSE 'outside' END,
                   CASE p.kind WHEN 'return' THEN 'user' ELSE 'outside' END,
                   CASE p.kind WHEN 'payment' THEN c.owner ELSE o.user END,
                   CASE p.kind WHEN 'payment' THEN 'user' ELSE 'refunds_due' END)
    FROM temp.posted p
    LEFT JOIN orders o ON o.campaign = p.campaign AND o.number = p.number
    LEFT JOIN campaigns c ON c.ref = p.campaign
    WHERE p.kind IN ('payment', 'refund_due', 'return')
      AND NOT EXISTS (SELECT 1 FROM temp.owed w WHERE w.partition = p.source AND w.seq = p.seq)
)
GROUP BY campaign, number, kind, at, amount, currency
HAVING sum(paid) <> sum(posted) OR sum(paid) = 0
UNION ALL
SELECT format('campaign #%d: the payment for the discarded order %d (entry %d) is not owed as it should be', c.ref,
              w.number, w.seq)
FROM temp.owed w
JOIN campaigns c ON c.id = w.campaign
LEFT JOIN postings p ON p.source = w.partition AND p.seq = w.seq
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE (p.kind, p.amount, p.campaign, p.number) IS NOT ('refund_due', w.amount, c.ref, w.number)
   OR (d.owner, d.purpose, d.currency) IS NOT ('outside', 'outside', w.currency)
   OR (k.owner, k.purpose, k.currency) IS NOT (w.user, 'refunds_due', w.currency);
