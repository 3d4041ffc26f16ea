SELECT number, user, quantity, amount, granted_at
FROM orders
WHERE campaign = ? AND number > ?
ORDER BY number
LIMIT ?
