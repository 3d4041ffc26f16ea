-- Every settled payment moves the received money from outside to the seller, or to the buyer's refunds due. Every
-- return moves the money that paid its units from the seller to the buyer's refunds due. Payments for a discarded order
-- are due to its buyer.
SELECT payments FROM temp.totals;

SELECT format('campaign #%d: the posting of %s of order %d (entry %d) is missing or wrong',
              s.campaign, coalesce('payment ' || s.payment, 'the return'), s.number, s.seq)
FROM temp.steps s
JOIN campaigns c ON c.ref = s.campaign
LEFT JOIN postings p ON p.source = 0 AND p.seq = s.seq
LEFT JOIN accounts d ON d.id = p.debit
LEFT JOIN accounts k ON k.id = p.credit
WHERE s.kind IN ('paid', 'reinstated', 'refund_due', 'returned') AND s.settled AND s.amount > 0
  AND ((p.kind, p.amount, p.campaign, p.number, p.at)
       IS NOT (CASE s.kind WHEN 'refund_due' THEN 'refund_due' WHEN 'returned' THEN 'return' ELSE 'payment' END,
               s.amount, s.campaign, s.number, s.at)
       OR (d.owner, d.purpose, d.currency) IS NOT (CASE s.kind WHEN 'returned' THEN c.owner ELSE 'outside' END,
                  CASE s.kind WHEN 'returned' THEN 'user' ELSE 'outside' END, coalesce(s.currency, c.currency))
       OR (k.owner, k.purpose, k.currency)
          IS NOT (CASE WHEN s.kind IN ('refund_due', 'returned') THEN s.user ELSE c.owner END,
                  CASE WHEN s.kind IN ('refund_due', 'returned') THEN 'refunds_due' ELSE 'user' END,
                  coalesce(s.currency, c.currency)))
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
