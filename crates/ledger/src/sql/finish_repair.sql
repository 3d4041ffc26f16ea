UPDATE repairs SET upto = CASE WHEN upto > $1 THEN upto ELSE $2 END WHERE "partition" = $3 AND epoch = $4
