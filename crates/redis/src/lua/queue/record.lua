-- Takes places out of a campaign's line and keeps what became of them for a while. A place that is not there any more,
-- or is another one by now, is left as it is.
-- KEYS[1] waiting, KEYS[2] how many wait in all lines, KEYS[3] line, KEYS[4] places, KEYS[5..] where to keep it, for
-- each user
-- ARGV[1] the campaign, ARGV[2] milliseconds,
-- ARGV[3..] in threes: a user; what is kept of the place; its number and what became of it
-- Replies: how many were taken out
local count = 0
for at = 3, #ARGV, 3 do
  local user = ARGV[at]
  if redis.call('HGET', KEYS[4], user) == ARGV[at + 1] then
    redis.call('ZREM', KEYS[3], user)
    redis.call('HDEL', KEYS[4], user)
    redis.call('SET', KEYS[5 + (at - 3) / 3], ARGV[at + 2], 'PX', ARGV[2])
    count = count + 1
  end
end
local left, counted = redis.call('HLEN', KEYS[4]), tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
local all = tonumber(redis.call('GET', KEYS[2]))
if all and left ~= counted then
  redis.call('SET', KEYS[2], all + left - counted, 'KEEPTTL')
end
if left > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], left)
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return count
