WHERE product_id = $1 AND owner = coalesce($2, owner) AND (starts_at, id) > ($3, $4)
  AND (archived_at IS NULL OR $5 = 1)
  AND CASE WHEN phase IN ('scheduled', 'paused') AND $6 >= ends_at THEN 'ended'
           WHEN phase = 'scheduled' AND $7 >= starts_at THEN 'live'
           ELSE phase END LIKE $8
ORDER BY starts_at, id
LIMIT $9
