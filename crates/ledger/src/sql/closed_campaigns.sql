SELECT id
FROM campaigns
WHERE phase = 'closed' AND ref > COALESCE((SELECT seen.ref FROM campaigns AS seen WHERE seen.id = $1), 0)
ORDER BY ref
LIMIT $2
