SELECT id
FROM campaigns FORCE INDEX (campaigns_claimed)
WHERE claimed = 1 AND ref > COALESCE((SELECT seen.ref FROM campaigns AS seen WHERE seen.id = ?), 0)
ORDER BY ref
LIMIT ?
