SELECT "partition", seq
FROM settled
WHERE seq > 0 AND "partition" BETWEEN $1 AND $2
ORDER BY "partition"
