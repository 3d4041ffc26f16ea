SELECT r.number, r."key", r.quantity, r.kind
FROM order_returns r
JOIN campaigns c ON c.ref = r.campaign
WHERE c.id = $1 AND r.number > $2 AND r.number <= $3
ORDER BY r.number
