SELECT partition, seq
FROM settled
WHERE seq > 0 AND ($1::bigint IS NULL OR partition = $1)
ORDER BY partition
