-- Starts or extends one repairer's lease of a partition that lost something. Another repairer waits until the lease
-- expires. A repair belongs to the server on which it began; after a failover it starts again.
-- KEYS[1] partition
-- ARGV[1] the repairer's token, in the replied form if there was a reply, ARGV[2] milliseconds that the lease lasts
-- Replies: {"ok", "MILLISECONDS TOKEN"}, the time since this loss was found, and the token on this server; {"whole",
-- ""} if nothing is lost; {"taken", ""} if another process repairs; {"gone", ""} if the lease was lost or began on
-- another server
local p = redis.call('HMGET', KEYS[1], 'halted', 'lost_from', 'lost_to', 'repairer', 'repair_until', 'repair_since')
if not p[1] or not p[3] then
  return {'whole', ''}
end
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local token, begun = string.match(ARGV[1], '^(%x+)%.?(%x*)$')
if begun ~= '' and begun ~= server then
  return {'gone', ''}
end
token = token .. '.' .. server
local time = redis.call('TIME')
local now, millis = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[2])
local function int(value)
  return string.format('%.0f', value)
end
-- Both times may come from a clock that was ahead of this one. A loss that has grown counts as a new loss: nodes must
-- offer again what they answered.
local loss = tostring(p[2]) .. '-' .. p[3]
local name, since = string.match(p[6] or '', '^(%S+) (%d+)$')
since = name == loss and math.min(tonumber(since), now) or now
redis.call('HSET', KEYS[1], 'repair_since', loss .. ' ' .. int(since))
if p[4] and p[4] ~= token and p[5] and now < tonumber(p[5]) then
  if tonumber(p[5]) > now + millis then
    redis.call('HSET', KEYS[1], 'repair_until', int(now + millis))
  end
  return {'taken', ''}
end
if begun ~= '' and p[4] ~= token then
  return {'gone', ''}
end
redis.call('HSET', KEYS[1], 'repairer', token, 'repair_until', int(now + millis))
return {'ok', int(now - since) .. ' ' .. token}
