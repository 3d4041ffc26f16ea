SELECT c.id, c.owner, coalesce(y.currency, c.currency), y.number, o."user", y.outcome, y.amount, y.at
FROM payments y
JOIN campaigns c ON c.ref = y.campaign
JOIN orders o ON o.campaign = y.campaign AND o.number = y.number
WHERE y.payment = $1
ORDER BY y.at, y.campaign, y.number
LIMIT 1
