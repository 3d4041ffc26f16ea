SELECT "partition", seq, entry
FROM set_aside
WHERE discard BETWEEN 1 AND 2
ORDER BY "partition", seq
LIMIT $1
