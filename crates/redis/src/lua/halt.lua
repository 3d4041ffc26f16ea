-- Halts the partition by hand: nothing is lost.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the reason
-- Replies: {"ok", ""}
redis.call('HSET', KEYS[1], 'halted', ARGV[7])
redis.call('HDEL', KEYS[1], 'open')
return {'ok', ''}
