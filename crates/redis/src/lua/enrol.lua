-- Notes campaigns that an earlier release has closed, so that they leave with the others.
-- KEYS[1] partition, KEYS[2] closed, KEYS[3..] campaigns
-- ARGV[1] from which milliseconds on they are kept a while, ARGV[2] "1" if these are the last ones, ARGV[3..] the same
-- campaigns
-- Replies: how many were noted
local count = 0
for n = 3, #KEYS do
  if redis.call('HGET', KEYS[n], 'phase') == 'c' then
    count = count + redis.call('ZADD', KEYS[2], 'NX', ARGV[1], ARGV[n])
  end
end
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'enrolled', '1')
end
return count
