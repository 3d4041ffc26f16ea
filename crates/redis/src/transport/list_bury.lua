-- Moves an item that cannot be read to where somebody can look at it. Its entries are read from the log instead.
-- KEYS[1] doing, KEYS[2] dead
-- ARGV[1] the item, ARGV[2] how many are kept at most
-- Replies: how many are kept
redis.call('LREM', KEYS[1], 1, ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
return redis.call('LLEN', KEYS[2])
