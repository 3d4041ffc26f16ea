SELECT number, amount, "user", granted_at, 1::bigint, 'held', NULL::text, 0::bigint, 0::bigint, 0::bigint
FROM shares
WHERE campaign = $1 AND "user" = $2
