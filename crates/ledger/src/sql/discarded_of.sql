SELECT seq, entry
FROM set_aside
WHERE campaign = $1 AND discard >= 2
ORDER BY "partition", seq
