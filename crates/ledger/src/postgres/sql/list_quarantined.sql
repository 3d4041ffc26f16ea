SELECT partition, seq, entry, reason, waits_for, at, discard
FROM set_aside
WHERE partition >= $1 AND (partition, seq) > ($2, $3) AND discard < 2
ORDER BY partition, seq
LIMIT $4
