-- Releases a worker's lease, so that another worker need not wait until it expires.
-- KEYS[1] lease
-- ARGV[1] the worker's token
-- Replies: 1 if the worker had the lease, 0 if not
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
