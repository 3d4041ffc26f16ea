SELECT seq FROM settled WHERE "partition" = $1 FOR UPDATE
