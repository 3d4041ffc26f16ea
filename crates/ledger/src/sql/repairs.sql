SELECT "partition", epoch, follows, at, lost_from, lost_to, unnamed, reason, upto
FROM repairs
WHERE "partition" = $1
ORDER BY at DESC, epoch
LIMIT $2
