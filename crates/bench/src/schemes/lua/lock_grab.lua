-- Records the user and takes a share, in the article's first version.
-- KEYS[1] set of the users that have a share
-- KEYS[2] counter of the remaining shares
-- ARGV[1] the user
-- Replies: the remaining shares afterwards, below 0 if there was none; also -1 if the user has a share
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then
  return redis.call('DECR', KEYS[2])
else
  return -1
end
