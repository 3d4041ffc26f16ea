WHERE kind = $1 AND id < $2 AND (archived_at IS NULL OR $3 = 1)
  AND CASE WHEN phase IN ('scheduled', 'paused') AND $4 >= ends_at THEN 'ended'
           WHEN phase = 'scheduled' AND $5 >= starts_at THEN 'live'
           ELSE phase END LIKE $6
ORDER BY id DESC
LIMIT $7
