-- The ledger's payments, including due refunds, are exactly those of the settled log.
SELECT payments FROM temp.totals;

SELECT format('campaign #%d: payment %s of order %d is not as entry %d tells it',
              s.campaign, s.payment, s.number, s.seq)
FROM temp.steps s
LEFT JOIN payments p ON p.campaign = s.campaign AND p.number = s.number AND p.payment = s.payment
WHERE s.kind IN ('paid', 'reinstated', 'refund_due') AND s.settled
  AND (p.outcome, p.amount, p.at, p.currency) IS NOT (s.kind, s.amount, s.at, s.currency)
UNION ALL
SELECT format('campaign #%d: payment %s of order %d is in no settled entry', p.campaign, p.payment, p.number)
FROM payments p
WHERE NOT EXISTS (
    SELECT 1 FROM temp.steps s
    WHERE s.campaign = p.campaign AND s.number = p.number AND s.payment = p.payment AND s.settled
);
