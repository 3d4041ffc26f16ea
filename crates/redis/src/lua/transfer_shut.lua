-- Another part of a spread campaign is repaired: nothing arrives here any more that it had sent before, and what was
-- moving there is gone, because the repair counts it. An entry says so, so that a loss of this is noticed.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the part that is repaired, ARGV[8] the last transfer that it may have begun
-- Replies: {"ok", ""}, {"unknown", ""}
-- luacheck: read globals c seq int put record finish
local field = 'from:' .. ARGV[7]
local is_behind = tonumber(redis.call('HGET', KEYS[5], field) or 0) < tonumber(ARGV[8])
local is_moving = redis.call('HDEL', KEYS[11], ARGV[7]) == 1
redis.call('HSET', KEYS[5], 'moving', redis.call('HLEN', KEYS[11]))
if is_behind then
  redis.call('HSET', KEYS[5], field, ARGV[8])
end
if is_behind or is_moving then
  put('version', c.version + 1)
  record('transferred_in ' .. ARGV[7] .. ' 0 0')
  finish()
end
return {'ok', '', int(seq)}
