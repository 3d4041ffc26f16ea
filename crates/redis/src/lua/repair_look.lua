-- Looks whether the keys of campaigns belong together, behind whole.lua.
-- KEYS of each campaign: campaign, shares, sums, users, orders, payments, transfers, keys
-- ARGV none
-- Replies: for each campaign the name of one that does not; empty where all do
-- luacheck: read globals broken_of
local broken = {}
for i = 1, #KEYS, 8 do
  broken[#broken + 1] = broken_of(unpack(KEYS, i, i + 7)) or ''
end
return broken
