-- Reads a shard of a spread campaign that lost nothing, so that other shards can be repaired. For some time no units
-- leave it. So two reads, each of all such shards in turn, find where all units are.
-- KEYS[1] campaign, KEYS[2] transfers, KEYS[3] shares
-- ARGV[1] the repairer's token, ARGV[2] milliseconds, 0 to let units leave again, ARGV[3] "1" to read the shares too
-- Replies: {"ok", "1" if the same repairer had it frozen before, fields, transfers, shares}; {"unknown", "", …} if
-- there is no such shard
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {'unknown', '', {}, {}, {}}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local before = redis.call('HGET', KEYS[1], 'frozen') or ''
local till, token = string.match(before, '^(%d+) (.*)$')
if ARGV[2] == '0' then
  if token == ARGV[1] then
    redis.call('HDEL', KEYS[1], 'frozen')
  end
  return {'ok', '', {}, {}, {}}
end
local held = token == ARGV[1] and now < tonumber(till)
redis.call('HSET', KEYS[1], 'frozen', string.format('%.0f', now + ARGV[2]) .. ' ' .. ARGV[1])
local shares = ARGV[3] == '1' and redis.call('LRANGE', KEYS[3], 0, -1) or {}
return {'ok', held and '1' or '', redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), shares}
