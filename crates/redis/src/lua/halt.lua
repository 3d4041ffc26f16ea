-- Halts the partition on an operator's request. No entry is lost.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the reason, ARGV[8] "1" if a repair must follow
-- Replies: {"ok", ""}
-- luacheck: read globals seq
redis.call('HSET', KEYS[1], 'halted', ARGV[7])
if ARGV[8] == '1' then
  -- This loss is empty.
  redis.call('HSET', KEYS[1], 'lost_from', string.format('%.0f', seq + 1), 'lost_to', string.format('%.0f', seq))
end
redis.call('HDEL', KEYS[1], 'open')
return {'ok', ''}
