SELECT id, parts, phase
FROM campaigns FORCE INDEX (campaigns_not_closed)
WHERE live = 1 AND id > ?
ORDER BY id
LIMIT ?
