-- Releases a lock that is still one's own.
-- KEYS[1] the lock
-- ARGV[1] what its holder wrote into it
-- Replies: 1 if it was released, 0 if it has expired or is somebody else's
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end
