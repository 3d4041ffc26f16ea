WHERE kind = $1 AND id < $2 AND id > $3
  AND created_at >= $4 AND created_at < $5 AND (archived_at IS NULL OR $6 = 1)
  AND CASE WHEN phase IN ('scheduled', 'paused') AND $7 >= ends_at THEN 'ended'
           WHEN phase = 'scheduled' AND $8 >= starts_at THEN 'live'
           ELSE phase END LIKE $9
ORDER BY id DESC
LIMIT $10
