-- Puts a run of a packet's shares in place before it opens: shares offset + 1 to offset + n of this part. Doing it
-- again, on any node, changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] offset, ARGV[8] how many sums follow, then place and sum of each, then shares
-- Replies: {"ok", ""}, {"gap", length}
-- luacheck: read globals int
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {'ok', ''}
end
local length, offset = redis.call('LLEN', KEYS[6]), tonumber(ARGV[7])
if length < offset then
  return {'gap', int(length)}
end
if length == offset then
  local shares = 9 + 2 * tonumber(ARGV[8])
  if shares > 9 then
    redis.call('HSET', KEYS[7], unpack(ARGV, 9, shares - 1))
  end
  redis.call('RPUSH', KEYS[6], unpack(ARGV, shares))
end
return {'ok', ''}
