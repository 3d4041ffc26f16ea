SELECT c.id, c.owner, coalesce(y.currency, c.currency), y.number, o."user", y.outcome, y.amount, y.at, y.payment
FROM payments y
JOIN campaigns c ON c.ref = y.campaign
JOIN orders o ON o.campaign = y.campaign AND o.number = y.number
