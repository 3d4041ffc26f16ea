-- Refuses to take up a campaign that may have been here, may have closed and may have left: one that was created before
-- another one that has left, unless the ledger has nothing of it up to an entry behind which nothing has left.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] when it was created, in milliseconds, ARGV[8] up to which entry the ledger has
-- nothing of it, as far as that is known
-- Replies: {"ok", ""} where it is here, {"left", entry} where that has to be known up to this entry
-- luacheck: read globals damaged has_due
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {'ok', ''}
elseif has_due(ARGV[6]) or redis.call('HGET', KEYS[1], 'damaged:' .. ARGV[6]) then
  return damaged('campaign')
end
local left = redis.call('HMGET', KEYS[1], 'left', 'left_created')
if left[1] and tonumber(ARGV[7]) <= tonumber(left[2]) and tonumber(ARGV[8]) < tonumber(left[1]) then
  return {'left', left[1]}
end
