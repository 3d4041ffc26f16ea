SELECT number, "user", amount, granted_at
FROM shares
WHERE campaign = (SELECT ref FROM campaigns WHERE id = $1) AND "user" IS NOT NULL
ORDER BY amount DESC, granted_at, number
LIMIT 1
