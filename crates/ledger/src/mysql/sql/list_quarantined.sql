SELECT `partition`, seq, entry, reason, waits_for, at, discard
FROM set_aside
WHERE `partition` >= ? AND (`partition` > ? OR seq > ?) AND discard < 2
ORDER BY `partition`, seq
LIMIT ?
