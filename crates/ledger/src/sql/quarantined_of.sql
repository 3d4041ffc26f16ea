SELECT seq, entry, discard
FROM set_aside
WHERE "partition" = $1 AND campaign = $2 AND seq < $3
ORDER BY seq
