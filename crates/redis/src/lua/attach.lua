-- Attaches a node to a partition: makes the state if nothing has ever happened here, else checks it.
-- KEYS[1] partition
-- ARGV[1] partitions, ARGV[2] epoch for a new state, ARGV[3] "1" if there may be a new one, ARGV[4] the last entry that
-- the ledger has
-- Replies: {"ok", epoch}, {"halted", reason}, {"count", partitions}
local p = redis.call('HMGET', KEYS[1], 'count', 'epoch', 'seq', 'halted')
if p[4] then
  return {'halted', p[4]}
end
local reason
if not p[2] then
  if ARGV[3] == '1' then
    redis.call('HSET', KEYS[1], 'count', ARGV[1], 'epoch', ARGV[2], 'seq', '0')
    return {'ok', ARGV[2]}
  end
  reason = 'Redis is empty, and the ledger is not: it has lost the state of this partition'
elseif p[1] ~= ARGV[1] then
  return {'count', p[1]}
elseif tonumber(p[3]) < tonumber(ARGV[4]) then
  reason = 'Redis has lost the entries ' .. string.format('%.0f', p[3] + 1) .. ' to ' .. ARGV[4] .. ' of the log'
else
  return {'ok', p[2]}
end
redis.call('HSET', KEYS[1], 'halted', reason)
return {'halted', reason}
