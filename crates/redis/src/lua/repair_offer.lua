-- Keeps what a node has answered past the end of the log, until the partition is repaired.
-- KEYS[1] partition, KEYS[2] kept, KEYS[3] offers
-- ARGV[1] the loss, ARGV[2] node, ARGV[3] empty, or, with the last of them, from which entry on these are all,
-- ARGV[4..] entries as text
-- Replies: {"ok", ""}, {"over", ""} when it is about another loss, or none
local p = redis.call('HMGET', KEYS[1], 'halted', 'lost_from', 'lost_to')
if not p[1] or not p[3] or p[2] .. '-' .. p[3] ~= ARGV[1] then
  return {'over', ''}
end
if #ARGV > 3 then
  redis.call('RPUSH', KEYS[2], unpack(ARGV, 4))
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[3], ARGV[2], ARGV[1] .. ' ' .. ARGV[3])
end
return {'ok', ''}
