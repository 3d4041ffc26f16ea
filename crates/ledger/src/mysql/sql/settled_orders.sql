SELECT number, amount, user, granted_at, quantity, state, `key`
FROM orders
WHERE campaign = ? AND number > ?
ORDER BY number
LIMIT ?
