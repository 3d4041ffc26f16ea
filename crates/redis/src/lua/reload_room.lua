-- Takes bytes from a budget: the memory beyond `maxmemory` that reloaded campaigns may use within some time. The budget
-- is full again that long after its first use, when these campaigns are evicted again or soon will be.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] bytes, ARGV[8] the budget, ARGV[9] the time in milliseconds
-- Replies: {"ok", ""}, {"full", ""} if less is left
-- luacheck: read globals now int
local before = redis.call('HMGET', KEYS[1], 'recalled', 'recalled_since')
local taken, since = tonumber(before[1]) or 0, tonumber(before[2]) or now
if math.abs(now - since) >= tonumber(ARGV[9]) then
  taken, since = 0, now
end
taken = taken + tonumber(ARGV[7])
if taken > tonumber(ARGV[8]) then
  return {'full', ''}
end
redis.call('HSET', KEYS[1], 'recalled', int(taken), 'recalled_since', int(since))
return {'ok', ''}
