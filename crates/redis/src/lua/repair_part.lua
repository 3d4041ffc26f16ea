-- Writes the counters of a repaired campaign, and replaces its shares by the prepared ones. Idempotent.
-- KEYS[1] partition, KEYS[2] agenda, KEYS[3] campaign, KEYS[4] shares, KEYS[5] sums, KEYS[6] prepared shares, KEYS[7]
-- prepared sums, KEYS[8] closed, KEYS[9] users, KEYS[10] payments, KEYS[11] keys, KEYS[12] transfers of a spread
-- campaign's shard: its counters include the units that were moving
-- ARGV[1] the repairer's token, ARGV[2] the campaign, ARGV[3] when its next tick is due, or empty, ARGV[4] "1" if
-- shares were prepared, ARGV[5] milliseconds, ARGV[6..] fields and values
-- Replies: {"ok", ""}, {"gone", ""} if another process repairs
-- luacheck: read globals schedule
local p = redis.call('HMGET', KEYS[1], 'halted', 'repairer')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not p[1] or p[2] ~= ARGV[1] or string.sub(ARGV[1], -#server) ~= server then
  return {'gone', ''}
end
if ARGV[4] == '1' then
  redis.call('UNLINK', KEYS[4], KEYS[5])
  for from, to in pairs({[KEYS[6]] = KEYS[4], [KEYS[7]] = KEYS[5]}) do
    if redis.call('EXISTS', from) == 1 then
      redis.call('RENAME', from, to)
    end
  end
end
redis.call('HDEL', KEYS[3], 'newest_buyer', 'newest_order')
redis.call('HSET', KEYS[3], unpack(ARGV, 6))
redis.call('HDEL', KEYS[1], 'damaged:' .. ARGV[2], 'unreadable:' .. ARGV[2])
if KEYS[12] then
  redis.call('UNLINK', KEYS[12])
  redis.call('HDEL', KEYS[3], 'newest_transfer')
  redis.call('HSET', KEYS[3], 'moving', 0)
end
if redis.call('HGET', KEYS[3], 'kind') == 'sale' then
  -- See whole.lua.
  redis.call('HSET', KEYS[3], 'buyers', redis.call('HLEN', KEYS[9]), 'paid', redis.call('HLEN', KEYS[10]),
    'keyed', redis.call('HLEN', KEYS[11]))
end
if redis.call('HGET', KEYS[3], 'phase') == 'c' then
  -- The entries that the repair appends are about this campaign.
  redis.call('HDEL', KEYS[3], 'touched')
  redis.call('ZADD', KEYS[8], ARGV[5], ARGV[2])
else
  redis.call('ZREM', KEYS[8], ARGV[2])
end
redis.call('HINCRBY', KEYS[3], 'version', 1)
schedule(KEYS[1], KEYS[2], ARGV[2], ARGV[3] ~= '' and ARGV[3])
return {'ok', ''}
