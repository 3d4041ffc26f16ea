-- Counts skipped order numbers.
-- KEYS none of its own
-- ARGV none of its own
-- Replies: none of its own
-- luacheck: ignore 211

-- Number of ordinals that a shard of a sale skips. No order has them, and the key of the orders has no rows of them.
local function skipped_of(campaign)
  local count = 0
  for first, last in string.gmatch(redis.call('HGET', campaign, 'skipped') or '', '(%d+)%-(%d+)') do
    count = count + tonumber(last) - tonumber(first) + 1
  end
  return count
end
