SELECT number, amount, user, granted_at, CAST(1 AS SIGNED), 'held', CAST(NULL AS CHAR), CAST(0 AS SIGNED),
       CAST(0 AS SIGNED), CAST(0 AS SIGNED)
FROM shares
WHERE campaign = ? AND number > ?
ORDER BY number
LIMIT ?
