SELECT c.id, c.owner, coalesce(y.currency, c.currency), y.number, o."user", y.outcome, y.amount, y.at, y.payment
FROM (
    -- The page first: a join may read all payments.
    SELECT campaign, number, payment, outcome, amount, at, currency FROM payments
    WHERE outcome LIKE $1 AND at >= $2 AND at <= $3
      AND (at, campaign, number, payment) < ($4, coalesce((SELECT ref FROM campaigns WHERE id = $5), 0), $6, $7)
    ORDER BY at DESC, campaign DESC, number DESC, payment DESC
    LIMIT $8
) y
JOIN campaigns c ON c.ref = y.campaign
JOIN orders o ON o.campaign = y.campaign AND o.number = y.number
ORDER BY y.at DESC, y.campaign DESC, y.number DESC, y.payment DESC
