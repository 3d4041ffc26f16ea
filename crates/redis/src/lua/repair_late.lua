-- Finds closed campaigns that may have entries after the ledger's position. A campaign without `touched` was written by
-- a repair, which appends its entries later.
-- KEYS[1..] campaigns
-- ARGV[1] the ledger's position
-- Replies: the indexes of these campaigns in KEYS
local position, found = tonumber(ARGV[1]), {}
for place, key in ipairs(KEYS) do
  local c = redis.pcall('HMGET', key, 'phase', 'touched')
  local touched = tonumber(c[2] or nil)
  if c[1] and not (touched and touched <= position) then
    found[#found + 1] = place
  end
end
return found
