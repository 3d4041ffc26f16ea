-- A paid order has one payment, at the time from which it is paid, and a returned order has one earlier payment. A held
-- order has no payment, except one in other money that no policy accepts. No other order is paid. A payment belongs to
-- an order. It has the order's price and no currency, or other money and its currency. Other money pays an order only
-- if the sale's payment policy accepts it. If units were cancelled, the price of the others is recorded as money, and
-- an earlier payment may equal it by chance.
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
SELECT format('campaign #%d: payment %s of order %d is for %d', campaign, payment, number, amount)
FROM (
    SELECT p.campaign, p.payment, p.number, p.amount, p.currency, p.outcome, o.state, o.number IS NULL AS is_alone,
           o.amount AS price, coalesce(o.cancelled_in_parts, 0) > 0 AS is_reduced, p.currency = c.currency AS is_ours,
           p.currency = c.currency AND CASE c.payment_policy
               WHEN 'accept_over' THEN o.amount > 0 AND p.amount > o.amount
               WHEN 'accept_with_tolerance' THEN c.payment_tolerance < o.amount
                    AND p.amount BETWEEN o.amount - c.payment_tolerance AND o.amount + c.payment_tolerance
               ELSE 0 END OR p.currency = c.currency AND o.cancelled_in_parts > 0 AND p.amount = o.amount
               AS is_accepted
    FROM payments p
    LEFT JOIN orders o ON o.campaign = p.campaign AND o.number = p.number
    LEFT JOIN campaigns c ON c.ref = p.campaign
)
WHERE is_alone
   OR currency IS NULL AND (amount IS NOT price OR is_reduced)
   OR currency IS NOT NULL AND amount < 1
   OR currency IS NOT NULL AND outcome <> 'refund_due' AND NOT is_accepted
   OR outcome = 'refund_due' AND state = 'held' AND is_accepted AND NOT is_reduced
   OR is_ours AND amount = price AND NOT is_reduced;
