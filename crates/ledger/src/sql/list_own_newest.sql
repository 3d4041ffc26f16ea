WHERE owner = $1 AND kind = $2 AND id < $3 AND (archived_at IS NULL OR $4 = 1)
  AND CASE WHEN phase IN ('scheduled', 'paused') AND $5 >= ends_at THEN 'ended'
           WHEN phase = 'scheduled' AND $6 >= starts_at THEN 'live'
           ELSE phase END LIKE $7
ORDER BY id DESC
LIMIT $8
