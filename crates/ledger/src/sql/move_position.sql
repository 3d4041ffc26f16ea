UPDATE settled SET seq = $1 WHERE "partition" = $2
