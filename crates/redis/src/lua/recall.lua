-- What brings a closed campaign back that has left, or a part of one: not where it is here, and not from a ledger that
-- was read too early to have everything of it.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] up to which entry the ledger was settled before it was read
-- Replies: {"ok", "here"}, {"stale", entry} where the ledger has to be settled up to this one
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {'ok', 'here'}
end
local left = redis.call('HGET', KEYS[1], 'left')
if left and tonumber(ARGV[7]) < tonumber(left) then
  return {'stale', left}
end
