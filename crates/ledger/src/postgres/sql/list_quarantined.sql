SELECT partition, seq, entry, reason, waits_for, at
FROM set_aside
WHERE (partition, seq) > ($1, $2)
ORDER BY partition, seq
LIMIT $3
