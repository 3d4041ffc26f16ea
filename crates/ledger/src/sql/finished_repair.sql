SELECT upto FROM repairs WHERE "partition" = $1 AND epoch = $2 AND lost_to >= $3 AND upto IS NOT NULL
