UPDATE details
SET archived_at = coalesce(archived_at, $1)
WHERE campaign = (SELECT ref FROM campaigns WHERE id = $2 AND phase = 'closed')
