SELECT COALESCE(MAX(number), 0)
FROM orders
WHERE campaign = (SELECT ref FROM campaigns WHERE id = $1)
