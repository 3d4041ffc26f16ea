-- Records the user and takes a share, with the guard against a stock below zero.
-- KEYS[1] set of the users that have one
-- KEYS[2] counter of the shares that are left
-- ARGV[1] the user
-- Replies: the shares left afterwards; -1 if the user has one, -2 if none is left
local remain = redis.call('GET', KEYS[2])
if tonumber(remain) <= 0 then
  return -2
end
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then
  return redis.call('DECR', KEYS[2])
else
  return -1
end
