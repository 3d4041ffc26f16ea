SELECT number, user, CAST(1 AS SIGNED), amount, granted_at
FROM shares
WHERE campaign = ? AND number > ? AND user IS NOT NULL
ORDER BY number
LIMIT ?
