SELECT seq, entry
FROM set_aside
WHERE `partition` = ? AND campaign = ? AND seq < ?
ORDER BY seq
