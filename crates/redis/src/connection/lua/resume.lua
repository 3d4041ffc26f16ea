-- Ends the halt of a repaired partition. The partition continues under a new epoch and a new term, after every entry
-- that was ever in its log. The caller must know the current epoch, and only one call succeeds.
-- KEYS[1] partition, KEYS[2] answers
-- ARGV[1] the current epoch, empty if the state is lost, ARGV[2] the new epoch, ARGV[3] the log continues after this
-- entry, ARGV[4] partitions, ARGV[8] the last entry of the current epoch that no node misses, if that is not all
-- Replies: {"ok", term}; {"open", ""} if the partition is not halted; {"epoch", epoch} if the epoch is another;
-- {"replica", ""} if the server is no primary
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return {'replica', ''}
end
local own = string.match(info, 'master_replid:(%x+)')
local p = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'term', 'halted', 'past', 'lost_to')
local epoch = p[1] or ''
if not p[4] then
  return {'open', ''}
elseif epoch ~= ARGV[1] then
  return {'epoch', epoch}
end
local function int(value)
  return string.format('%.0f', value)
end
local seq = int(math.max(tonumber(p[2] or 0), tonumber(p[6] or 0), tonumber(ARGV[3])))
local past = string.gsub(p[5] or '', '%?', seq)
if epoch ~= '' then
  past = past .. ' ' .. epoch .. ':' .. (ARGV[8] or seq)
end
-- A campaign that is not in Redis may have left within the lost entries, together with the record of that. If such a
-- campaign was created before now, it is reloaded or opened only from a ledger that is settled up to here. Clocks may
-- be ahead, hence `AHEAD_S`.
local AHEAD_S = 600
local left = redis.call('HMGET', KEYS[1], 'left', 'left_created')
local created = (tonumber(redis.call('TIME')[1]) + 1 + AHEAD_S) * 1000
redis.call('HSET', KEYS[1], 'left', int(math.max(tonumber(seq), tonumber(left[1] or 0))),
  'left_created', int(math.max(created, tonumber(left[2] or 0))))
local term, server = int(tonumber(p[3] or 0) + 1), string.sub(own, 1, 8)
local open = table.concat({ARGV[2], term, server}, '.')
redis.call('HSET', KEYS[1], 'count', ARGV[4], 'epoch', ARGV[2], 'seq', seq, 'term', term, 'server', own, 'began', seq,
  'terms', table.concat({term, seq, server}, ':'), 'past', past, 'open', open)
if tonumber(ARGV[3]) > 0 then
  -- The ledger's position exists in that case. A repair has recorded it.
  redis.call('HSET', KEYS[1], 'ledger_position', ARGV[3])
end
-- The time of the last uptime may be lost, and downtimes with it: then no hold has expired so far.
if not redis.call('HGET', KEYS[1], 'up') then
  redis.call('HSET', KEYS[1], 'up', '0')
end
-- A repair's fields and the nodes' answers concern the loss that is over.
redis.call('HDEL', KEYS[1], 'halted', 'lost_from', 'lost_to', 'gap_from', 'since', 'alive_from', 'repairer',
  'repair_until', 'repair_since', 'repair_unnamed')
redis.call('UNLINK', KEYS[2])
return {'ok', open}
