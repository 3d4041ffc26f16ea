-- Takes places out of a campaign's line and keeps what became of them for a while. A place that is not there any more,
-- or is another one by now, is left as it is.
-- KEYS[1] waiting, KEYS[2] line, KEYS[3] places, KEYS[4..] where to keep it, for each user
-- ARGV[1] the campaign, ARGV[2] milliseconds,
-- ARGV[3..] in threes: a user; what is kept of the place; its number and what became of it
-- Replies: how many were taken out
local count = 0
for at = 3, #ARGV, 3 do
  local user = ARGV[at]
  if redis.call('HGET', KEYS[3], user) == ARGV[at + 1] then
    redis.call('ZREM', KEYS[2], user)
    redis.call('HDEL', KEYS[3], user)
    redis.call('SET', KEYS[4 + (at - 3) / 3], ARGV[at + 2], 'PX', ARGV[2])
    count = count + 1
  end
end
local left = redis.call('HLEN', KEYS[3])
if left > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], left)
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return count
