-- Puts some rows of it in place, under which nobody finds anything yet. Doing it again changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..7] as in recall.lua, ARGV[8] until when these may stay without the rest, in milliseconds, ARGV[9] the number
-- of the key among KEYS, ARGV[10..] fields and values
-- Replies: {"ok", ""}
redis.call('ZADD', KEYS[15], ARGV[8], ARGV[6])
local keys = {[8] = KEYS[8], [9] = KEYS[9], [10] = KEYS[10], [13] = KEYS[13]}
redis.call('HSET', keys[tonumber(ARGV[9])], unpack(ARGV, 10))
return {'ok', ''}
