SELECT `partition`, seq, entry, reason, waits_for, at
FROM set_aside
WHERE `partition` >= ? AND (`partition` > ? OR seq > ?)
ORDER BY `partition`, seq
LIMIT ?
