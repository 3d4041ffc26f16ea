DELETE FROM withheld
WHERE "partition" = $1 AND epoch IN (SELECT epoch FROM repairs WHERE "partition" = $2 AND upto IS NULL)
