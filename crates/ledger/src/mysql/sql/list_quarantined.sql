SELECT `partition`, seq, entry, reason, waits_for, at
FROM set_aside
WHERE `partition` > ? OR `partition` = ? AND seq > ?
ORDER BY `partition`, seq
LIMIT ?
