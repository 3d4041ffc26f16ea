SELECT `partition`, seq
FROM settled
WHERE seq > 0 AND `partition` BETWEEN ? AND ?
ORDER BY `partition`
