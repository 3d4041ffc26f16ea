-- Makes a reloaded campaign visible, once all of its rows are in place.
-- KEYS as in prelude.lua
-- ARGV[1..7] as in reload.lua, ARGV[8] milliseconds from which its retention counts; empty if it is not closed: then
-- its keys must have been removed as damaged, ARGV[9] when its next tick is due, or empty, ARGV[10..15] the required
-- numbers of users, orders, payments, keys, sums and shares, ARGV[16..] fields and values
-- Replies: {"ok", ""}, {"stale", ""} if its keys were not removed; {"gap", ""} if the numbers of rows differ: then all
-- rows are removed and must be written again
-- luacheck: read globals noted length schedule
local is_closed = ARGV[8] ~= ''
if not is_closed and not noted then
  return {'stale', ''}
end
local keys = {KEYS[8], KEYS[9], KEYS[10], KEYS[13], KEYS[7], KEYS[6]}
for i, key in ipairs(keys) do
  if length(key == KEYS[6] and 'LLEN' or 'HLEN', key) ~= tonumber(ARGV[9 + i]) then
    redis.call('UNLINK', unpack(keys))
    return {'gap', ''}
  end
end
redis.call('HSET', KEYS[5], unpack(ARGV, 16))
if redis.call('HGET', KEYS[5], 'kind') == 'sale' then
  redis.call('HSET', KEYS[5], 'buyers', ARGV[10], 'paid', ARGV[12], 'keyed', ARGV[13])
end
-- A new version, so that no gate uses data from before the eviction.
local time = redis.call('TIME')
redis.call('HSET', KEYS[5], 'version', string.format('%.0f', time[1] * 1000000 + time[2]))
if is_closed then
  redis.call('HSET', KEYS[5], 'touched', ARGV[7])
  redis.call('ZADD', KEYS[15], ARGV[8], ARGV[6])
else
  redis.call('ZREM', KEYS[15], ARGV[6])
end
if ARGV[9] ~= '' then
  schedule(KEYS[1], KEYS[4], ARGV[6], ARGV[9])
elseif noted then
  schedule(KEYS[1], KEYS[4], ARGV[6])
end
redis.call('HDEL', KEYS[1], 'damaged:' .. ARGV[6], 'unreadable:' .. ARGV[6])
return {'ok', ''}
