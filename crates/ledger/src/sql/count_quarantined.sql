SELECT count(*) - count(waits_for), count(waits_for) FROM set_aside WHERE "partition" = $1 AND discard < 2
