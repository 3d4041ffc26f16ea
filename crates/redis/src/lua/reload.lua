-- First step of reloading a campaign or one shard of it: a closed one that was evicted, or one whose damaged keys were
-- removed. Refused if Redis has it, or if the ledger was read too early to have all of its entries.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the entry up to which the ledger was settled before it was read
-- Replies: {"ok", "here"}, {"stale", entry} if the ledger must be settled up to this entry; empty if damaged keys are
-- not removed yet
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
