SELECT number, "user", 1::bigint, amount, granted_at
FROM shares
WHERE campaign = $1 AND number > $2 AND "user" IS NOT NULL
ORDER BY number
LIMIT $3
