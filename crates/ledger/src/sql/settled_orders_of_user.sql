SELECT number, amount, "user", granted_at, quantity, state, "key", returned_in_parts, cancelled_in_parts,
       extension_ms
FROM orders
WHERE campaign = $1 AND "user" = $2
ORDER BY number
