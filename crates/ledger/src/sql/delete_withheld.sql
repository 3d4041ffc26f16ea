DELETE FROM withheld
WHERE "partition" = $1 AND epoch = $2 AND campaign = $3
