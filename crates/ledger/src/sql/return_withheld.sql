UPDATE withheld
SET released_at = $1
WHERE "partition" = $2 AND campaign = $3 AND released_at IS NULL
