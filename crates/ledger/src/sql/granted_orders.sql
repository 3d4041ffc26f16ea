SELECT number, "user", quantity, amount, granted_at
FROM orders
WHERE campaign = $1 AND number > $2
ORDER BY number
LIMIT $3
