-- Partial returns add up to the order's returned units, and to less than its units while it is paid. Their refunds due
-- add up to these units' part of the payment. Only a paid or returned order has partial returns. Partial cancellations
-- add up to the order's cancelled units, and owe nothing.
SELECT orders FROM temp.totals;

SELECT format('campaign #%d: order %d (%s, %d units) has returned %d units in parts for %d; its returns are %d for %d',
              o.campaign, o.number, o.state, o.quantity, o.returned_in_parts, coalesce(t.owed_in_parts, 0),
              coalesce(r.units, 0), coalesce(r.amount, 0))
FROM orders o
LEFT JOIN (
    SELECT campaign, number, sum(quantity) AS units, sum(amount) AS amount
    FROM order_returns
    WHERE kind = 'return'
    GROUP BY campaign, number
) r ON r.campaign = o.campaign AND r.number = o.number
LEFT JOIN temp.returned t ON t.campaign = o.campaign AND t.number = o.number
WHERE o.returned_in_parts <> coalesce(r.units, 0)
   OR coalesce(t.owed_in_parts, 0) <> coalesce(r.amount, 0)
   OR o.returned_in_parts > CASE o.state WHEN 'returned' THEN o.quantity WHEN 'paid' THEN o.quantity - 1 ELSE 0 END
UNION ALL
SELECT format('campaign #%d: order %d has %d units cancelled in parts; its cancellations are %d', o.campaign, o.number,
              o.cancelled_in_parts, coalesce(r.units, 0))
FROM orders o
LEFT JOIN (
    SELECT campaign, number, sum(quantity) AS units
    FROM order_returns
    WHERE kind = 'cancellation'
    GROUP BY campaign, number
) r ON r.campaign = o.campaign AND r.number = o.number
WHERE o.cancelled_in_parts <> coalesce(r.units, 0)
UNION ALL
SELECT format('campaign #%d: %s %s of order %d is of %d units for %d', r.campaign, r.kind, r.key, r.number, r.quantity,
              r.amount)
FROM order_returns r
LEFT JOIN orders o ON o.campaign = r.campaign AND o.number = r.number
WHERE o.number IS NULL OR r.quantity < 1 OR r.amount < 0
   OR r.kind NOT IN ('cancellation', 'return') OR r.kind = 'cancellation' AND r.amount <> 0;
