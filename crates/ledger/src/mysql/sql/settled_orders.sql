SELECT number, amount, user, granted_at, quantity, state
FROM orders
WHERE campaign = ? AND number > ?
ORDER BY number
LIMIT ?
