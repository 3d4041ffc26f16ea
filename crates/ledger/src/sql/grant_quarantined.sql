SELECT seq
FROM set_aside
WHERE "partition" = $1 AND campaign = $2 AND entry LIKE $3
LIMIT 1
