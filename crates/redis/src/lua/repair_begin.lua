-- Takes a partition that has lost something for one repairer, or keeps it: another one waits until the first has not
-- been heard of for a while. A repair belongs to the server on which it began: after a failover it begins again.
-- KEYS[1] partition
-- ARGV[1] the repairer's token, as it was replied if there was a reply, ARGV[2] for how many milliseconds it is the
-- repairer's
-- Replies: {"ok", "MILLISECONDS TOKEN"}, since the loss was found, and the token on this server; {"whole", ""};
-- {"taken", ""}; {"gone", ""} where it was begun on another server
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
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A clock that was set back, or another server's, makes nobody wait for longer than this.
local till = math.min(tonumber(p[5] or 0), now + tonumber(ARGV[2]))
if p[4] and p[4] ~= token and now < till then
  return {'taken', ''}
end
if begun ~= '' and p[4] ~= token then
  return {'gone', ''}
end
-- A loss that has grown is another one.
local loss = p[2] .. '-' .. p[3]
local of, since = string.match(p[6] or '', '^(%S+) (%d+)$')
since = of == loss and math.min(tonumber(since), now) or now
redis.call('HSET', KEYS[1], 'repairer', token, 'repair_until', string.format('%.0f', now + ARGV[2]), 'repair_since',
  loss .. ' ' .. string.format('%.0f', since))
return {'ok', string.format('%.0f', now - since) .. ' ' .. token}
