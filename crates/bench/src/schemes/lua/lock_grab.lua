-- Records the user and takes a share, as first printed.
-- KEYS[1] set of the users that have one
-- KEYS[2] counter of the shares that are left
-- ARGV[1] the user
-- Replies: the shares left afterwards, below 0 when there was none; -1 also if the user has one
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then
  return redis.call('DECR', KEYS[2])
else
  return -1
end
