WHERE owner = $1 AND kind = $2 AND id < $3 AND id > $4
  AND created_at >= $5 AND created_at < $6 AND (archived_at IS NULL OR $7 = 1)
  AND CASE WHEN phase IN ('scheduled', 'paused') AND $8 >= ends_at THEN 'ended'
           WHEN phase = 'scheduled' AND $9 >= starts_at THEN 'live'
           ELSE phase END LIKE $10
ORDER BY id DESC
LIMIT $11
