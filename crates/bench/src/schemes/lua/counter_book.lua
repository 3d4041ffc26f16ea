-- Takes units of a product by counting them.
-- KEYS[1] hash of the product: Total, Booked
-- ARGV[1] units
-- Replies: the units taken; 0 if there are fewer, the product is unknown or the number makes no sense
local n = tonumber(ARGV[1])
if not n or n == 0 then
  return 0
end
local vals = redis.call('HMGET', KEYS[1], 'Total', 'Booked')
local total = tonumber(vals[1])
local booked = tonumber(vals[2])
if not total or not booked then
  return 0
end
if booked + n <= total then
  redis.call('HINCRBY', KEYS[1], 'Booked', n)
  return n
end
return 0
