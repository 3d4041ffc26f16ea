DELETE FROM withheld_numbers
WHERE "partition" = $1 AND epoch = $2 AND campaign = $3
