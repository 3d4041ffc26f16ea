SELECT id, parts, phase
FROM campaigns
WHERE phase <> 'closed' AND id > $1
ORDER BY id
LIMIT $2
