-- Ends a repair, and with resume.lua behind it the halt.
-- KEYS[1] partition, KEYS[2] kept, KEYS[3] offers, KEYS[4] repairs
-- ARGV[1..4] as in resume.lua, ARGV[5] the repairer's token, ARGV[6] what was done, in words
-- Replies: {"gone", ""} when another one repairs
local repairer = redis.call('HGET', KEYS[1], 'repairer')
if repairer ~= ARGV[5] then
  return {'gone', ''}
end
redis.call('HDEL', KEYS[1], 'repairer', 'repair_until', 'repair_since', 'repair_unnamed')
redis.call('UNLINK', KEYS[2], KEYS[3])
redis.call('RPUSH', KEYS[4], ARGV[6])
redis.call('LTRIM', KEYS[4], -1000, -1)
