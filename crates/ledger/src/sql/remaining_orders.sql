SELECT number, updated_at FROM orders
WHERE campaign = $1 AND number BETWEEN $2 AND $3
