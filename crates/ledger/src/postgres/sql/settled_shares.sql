SELECT number, amount, "user", granted_at, 1::bigint, 'held', NULL::text, 0::bigint, 0::bigint, 0::bigint
FROM shares
WHERE campaign = $1 AND number > $2
ORDER BY number
LIMIT $3
