-- Records the user and takes a share, with a guard against a stock below zero.
-- KEYS[1] set of the users that have a share
-- KEYS[2] counter of the remaining shares
-- ARGV[1] the user
-- Replies: the remaining shares afterwards; -1 if the user has a share, -2 if none is left
local remain = redis.call('GET', KEYS[2])
if tonumber(remain) <= 0 then
  return -2
end
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then
  return redis.call('DECR', KEYS[2])
else
  return -1
end
