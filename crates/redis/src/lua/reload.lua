-- What brings a campaign back, or a part of one: one that is closed and has left, or one whose keys were damaged and
-- taken away. Not where it is here, and not from a ledger that was read too early to have everything of it.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] up to which entry the ledger was settled before it was read
-- Replies: {"ok", "here"}, {"stale", entry} where the ledger has to be settled up to this one; empty where damaged keys
-- are not taken away yet
-- luacheck: read globals int
-- luacheck: ignore 211
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {'ok', 'here'}
end
local noted = redis.call('HGET', KEYS[1], 'damaged:' .. ARGV[6])
if noted == '?' then
  return {'stale', ''}
end
local needed = math.max(tonumber(redis.call('HGET', KEYS[1], 'left') or 0), tonumber(noted or 0))
if tonumber(ARGV[7]) < needed then
  return {'stale', int(needed)}
end
