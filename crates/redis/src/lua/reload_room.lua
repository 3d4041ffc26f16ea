-- Takes bytes from a budget: the memory that reloaded campaigns may use within some time, in all or beyond `maxmemory`.
-- The budget is full again that long after its first use, when these campaigns are evicted again or soon will be.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] bytes, ARGV[8] the budget, ARGV[9] the time in milliseconds, ARGV[10] the field
-- that counts the bytes, ARGV[11] how many of the bytes must fit
-- Replies: {"ok", ""}, {"full", ""} if less is left
-- luacheck: read globals now int
local field, begin = ARGV[10], ARGV[10] .. '_since'
local before = redis.call('HMGET', KEYS[1], field, begin)
local taken, since = tonumber(before[1]) or 0, tonumber(before[2]) or now
if math.abs(now - since) >= tonumber(ARGV[9]) then
  taken, since = 0, now
end
if taken + tonumber(ARGV[11]) > tonumber(ARGV[8]) then
  return {'full', ''}
end
redis.call('HSET', KEYS[1], field, int(taken + tonumber(ARGV[7])), begin, int(since))
return {'ok', ''}
