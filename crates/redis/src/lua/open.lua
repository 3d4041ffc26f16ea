-- Takes a campaign up, or a part of one, once its shares are in place. Doing it again changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] shares that must be in place, ARGV[8..] the campaign's fields and values
-- Replies: {"ok", ""}, {"gap", length}
-- luacheck: read globals now append
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {'ok', ''}
end
local length = redis.call('LLEN', KEYS[6])
if length ~= tonumber(ARGV[7]) then
  return {'gap', string.format('%d', length)}
end
redis.call('HSET', KEYS[5], unpack(ARGV, 8))
local c = redis.call('HMGET', KEYS[5], 'ends', 'parts')
append(1, now, 'e', 'opened ' .. c[2])
redis.call('ZADD', KEYS[4], c[1], ARGV[6])
return {'ok', ''}
