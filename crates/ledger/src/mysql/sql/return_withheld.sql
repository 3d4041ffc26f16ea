UPDATE withheld
SET released_at = ?
WHERE `partition` = ? AND campaign = ? AND released_at IS NULL
