-- At most one payment pays an order, in the log and in the ledger, and a payment counts once.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: the log pays order %d %d times', campaign, number, count(*))
FROM temp.steps
WHERE kind IN ('paid', 'reinstated')
GROUP BY campaign, number
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: payment %s of order %d is in the log %d times', campaign, payment, number, count(*))
FROM temp.steps
WHERE payment IS NOT NULL
GROUP BY campaign, number, payment
HAVING count(*) > 1
UNION ALL
SELECT format('campaign #%d: order %d has %d payments', campaign, number, count(*))
FROM payments
WHERE outcome <> 'refund_due'
GROUP BY campaign, number
HAVING count(*) > 1;
