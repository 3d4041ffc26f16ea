-- Takes a campaign out of service: removes its keys, so that no script finds it until it is reloaded from the ledger.
-- Ticks retry the reload. Idempotent.
-- KEYS[1] partition, KEYS[2] agenda, KEYS[3..] the campaign's keys
-- ARGV[1] the repairer's token, ARGV[2] the campaign, ARGV[3] the ledger's position: no later entry is about the
-- campaign, ARGV[4] the epoch that the repair begins
-- Replies: {"ok", ""}, {"gone", ""} if another process repairs
-- luacheck: read globals schedule
local p = redis.call('HMGET', KEYS[1], 'halted', 'repairer')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not p[1] or p[2] ~= ARGV[1] or string.sub(ARGV[1], -#server) ~= server then
  return {'gone', ''}
end
redis.call('UNLINK', unpack(KEYS, 3))
redis.call('HSET', KEYS[1], 'damaged:' .. ARGV[2], ARGV[3], 'unreadable:' .. ARGV[2], ARGV[4])
schedule(KEYS[1], KEYS[2], ARGV[2], 0)
return {'ok', ''}
