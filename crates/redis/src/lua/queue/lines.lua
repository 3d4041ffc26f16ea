-- Lists the campaigns with queue entries, for the one process that decides them. If all queues are empty, nothing is
-- written.
-- KEYS[1] waiting, KEYS[2] decider
-- ARGV[1] the process, ARGV[2] milliseconds for which it decides
-- Replies: "own", or "other" if another process decides; and the campaigns
local lines = redis.call('HKEYS', KEYS[1])
local owner = #lines > 0 and redis.call('GET', KEYS[2]) or ARGV[1]
if #lines > 0 and owner == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
table.insert(lines, 1, owner == ARGV[1] and 'own' or 'other')
return lines
