-- A paid order was paid by one payment, at the moment from which it is paid, and one that was returned by one before.
-- An order that waits has had none, unless of another amount than its price; and no other order was paid. A payment is
-- for an order. It is the order's price and has no currency, or is other money with its currency and is owed back.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d is %s, with %d payments that count and %d that are owed back',
              o.campaign, o.number, o.state, count(p.outcome) - coalesce(sum(p.outcome = 'refund_due'), 0),
              coalesce(sum(p.outcome = 'refund_due'), 0))
FROM orders o
LEFT JOIN payments p ON p.campaign = o.campaign AND p.number = o.number
GROUP BY o.campaign, o.number
HAVING coalesce(sum(p.outcome <> 'refund_due'), 0) <> (o.state IN ('paid', 'returned'))
    OR o.state = 'held' AND count(p.outcome) FILTER (WHERE p.currency IS NULL) > 0
    OR o.state = 'paid' AND max(p.at) FILTER (WHERE p.outcome <> 'refund_due') <> o.updated_at
UNION ALL
SELECT format('campaign #%d: payment %s of order %d is for %d', p.campaign, p.payment, p.number, p.amount)
FROM payments p
LEFT JOIN orders o ON o.campaign = p.campaign AND o.number = p.number
LEFT JOIN campaigns c ON c.ref = p.campaign
WHERE o.number IS NULL
   OR p.currency IS NULL AND p.amount IS NOT o.amount
   OR p.currency IS NOT NULL AND (p.outcome <> 'refund_due' OR p.amount < 1)
   OR p.currency = c.currency AND p.amount = o.amount;
