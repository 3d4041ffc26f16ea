-- Checks whether the keys of campaigns match; runs after older.lua and whole.lua.
-- KEYS of each campaign: campaign, shares, sums, users, orders, payments, transfers, keys
-- ARGV none
-- Replies: per campaign the name of a key that does not match, or empty
-- luacheck: read globals broken_of
local broken = {}
for i = 1, #KEYS, 8 do
  broken[#broken + 1] = broken_of(unpack(KEYS, i, i + 7)) or ''
end
return broken
