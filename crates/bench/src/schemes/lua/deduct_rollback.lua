-- Restocks units whose order could not be published.
-- KEYS[1] hash of the product's stock
-- KEYS[2] field of that hash; no key, but the article passes it as one
-- ARGV[1] units
-- Replies: 1 if the units were restocked, 0 if the product is unknown
if redis.call('hexists', KEYS[1], KEYS[2]) == 0 then
  return 0
end
redis.call('hincrby', KEYS[1], KEYS[2], ARGV[1])
return 1
