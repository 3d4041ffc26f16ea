-- Takes a partition that has lost something for one repairer, or keeps it: another one waits until the first has not
-- been heard of for a while.
-- KEYS[1] partition
-- ARGV[1] the repairer's token, ARGV[2] for how many milliseconds it is the repairer's
-- Replies: {"ok", milliseconds since the loss was found}, {"whole", ""}, {"taken", ""}
local p = redis.call('HMGET', KEYS[1], 'halted', 'lost_to', 'repairer', 'repair_until', 'repair_since')
if not p[1] or not p[2] then
  return {'whole', ''}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if p[3] and p[3] ~= ARGV[1] and now < tonumber(p[4]) then
  return {'taken', ''}
end
local since = tonumber(p[5]) or now
redis.call('HSET', KEYS[1], 'repairer', ARGV[1], 'repair_until', string.format('%.0f', now + ARGV[2]), 'repair_since',
  string.format('%.0f', since))
return {'ok', string.format('%.0f', now - since)}
