-- Releases a lock if its owner is still the caller.
-- KEYS[1] the lock
-- ARGV[1] the value that its owner wrote
-- Replies: 1 if it was released, 0 if it has expired or has another owner
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end
