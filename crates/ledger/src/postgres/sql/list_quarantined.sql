SELECT partition, seq, entry, reason, waits_for, at
FROM set_aside
WHERE partition >= $1 AND (partition, seq) > ($2, $3)
ORDER BY partition, seq
LIMIT $4
