-- Skips the numbers of a sale that a repair has recorded while the sale was a draft.
-- KEYS nothing of its own
-- ARGV nothing of its own
-- Replies: nothing of its own
-- luacheck: read globals int
-- luacheck: ignore 211

-- The ledger may have been set back, so users may have orders of a sale that it has as a draft.
local function skip_numbers(id, campaign)
  local skipped = redis.call('HGET', KEYS[1], 'skipped:' .. id)
  if skipped then
    redis.call('HSET', campaign, 'grants', skipped, 'first', int(tonumber(skipped) + 1), 'skipped', '1-' .. skipped)
    redis.call('HDEL', KEYS[1], 'skipped:' .. id)
  end
end
