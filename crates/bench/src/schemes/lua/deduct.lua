-- Checks the stock and deducts from it.
-- KEYS[1] hash of the product's stock
-- KEYS[2] field of that hash; no key, but the article passes it as one
-- ARGV[1] units
-- Replies: 1 if the units were deducted, 0 if there are fewer
local residue = tonumber(redis.call('hget', KEYS[1], KEYS[2]))
local quantity = tonumber(ARGV[1])
if residue and residue >= quantity then
  redis.call('hincrby', KEYS[1], KEYS[2], -quantity)
  return 1
end
return 0
