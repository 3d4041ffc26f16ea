-- Ends a repair; resume.lua, which follows, ends the halt.
-- KEYS[1] partition, KEYS[2] answers, KEYS[3] repairs
-- ARGV[1..4] as in resume.lua, ARGV[5] the repairer's token, ARGV[6] a description of the repair, ARGV[7] the loss,
-- ARGV[8] the last entry that is accounted for
-- Replies: {"gone", ""} if another process repairs; {"more", ""} if the loss has grown since it was repaired
local lost = redis.call('HMGET', KEYS[1], 'repairer', 'lost_from', 'lost_to')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if lost[1] ~= ARGV[5] or string.sub(ARGV[5], -#server) ~= server then
  return {'gone', ''}
end
if tostring(lost[2]) .. '-' .. tostring(lost[3]) ~= ARGV[7] then
  return {'more', ''}
end
redis.call('RPUSH', KEYS[3], ARGV[6])
redis.call('LTRIM', KEYS[3], -1000, -1)
