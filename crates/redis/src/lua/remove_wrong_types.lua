-- Removes keys of a partition that have another type than theirs: scripts would fail at them, and some between two
-- writes. Each loss is noticed: ticks rebuild the agenda, and a gap in the log is repaired.
-- KEYS[1] log, KEYS[2..3] agenda and closed, KEYS[4..8] queue, doing, dead, released and repairs, KEYS[9..10] answers
-- and waiting, KEYS[11..15] lease, reconciler, retirer, decider and waiting_all
-- ARGV none
-- Replies: the keys that were removed
local removed = {}
for i, key in ipairs(KEYS) do
  local found
  if i == 1 then
    found = redis.pcall('XRANGE', key, '+', '+', 'COUNT', 1)
  elseif i <= 3 then
    found = redis.pcall('ZRANGE', key, 0, 0)
  elseif i <= 8 then
    found = redis.pcall('LLEN', key)
  elseif i <= 10 then
    found = redis.pcall('HLEN', key)
  else
    found = redis.pcall('GET', key)
  end
  if type(found) == 'table' and found.err and string.find(found.err, 'WRONGTYPE', 1, true) then
    removed[#removed + 1] = key
  end
end
if #removed > 0 then
  redis.call('UNLINK', unpack(removed))
end
return removed
