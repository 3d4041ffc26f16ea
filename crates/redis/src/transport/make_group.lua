-- Creates the consumer group of a partition's log, and the log if there is none.
-- KEYS[1] log
-- ARGV[1] the group, ARGV[2] the id of the record after which the group begins
-- Replies: 1, or the error BUSYGROUP if the group exists
redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], ARGV[2], 'MKSTREAM')
return 1
