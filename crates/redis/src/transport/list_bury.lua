-- Moves an unreadable item to a list for inspection. Its entries are read from the log instead.
-- KEYS[1] doing, KEYS[2] dead
-- ARGV[1] the item, ARGV[2] maximum items kept
-- Replies: the number of items kept
redis.call('LREM', KEYS[1], 1, ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
return redis.call('LLEN', KEYS[2])
