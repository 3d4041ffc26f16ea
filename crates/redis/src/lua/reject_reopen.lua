-- Refuses to open a campaign that may have been open, closed and evicted: one that was created before another campaign
-- that was evicted. The refusal ends once the ledger has nothing of the campaign up to the last entry of all evicted
-- ones.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] when it was created, in milliseconds, ARGV[8] the entry up to which the ledger
-- has nothing of it, as far as the caller knows
-- Replies: {"ok", ""} if it is here, {"left", entry} if the ledger must be checked up to this entry
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
