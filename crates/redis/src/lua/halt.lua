-- Halts the partition by hand: nothing is lost.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the reason, ARGV[8] "1" where a repair is to follow
-- Replies: {"ok", ""}
-- luacheck: read globals seq
redis.call('HSET', KEYS[1], 'halted', ARGV[7])
if ARGV[8] == '1' then
  -- A loss of nothing.
  redis.call('HSET', KEYS[1], 'lost_from', string.format('%.0f', seq + 1), 'lost_to', string.format('%.0f', seq))
end
redis.call('HDEL', KEYS[1], 'open')
return {'ok', ''}
