-- Has the campaign be here again, once all of its rows are in place.
-- KEYS as in prelude.lua
-- ARGV[1..7] as in recall.lua, ARGV[8] from which milliseconds on it is kept a while, ARGV[9] when something of it is
-- due, or empty, ARGV[10..13] how many users, orders, payments and keys there must be, ARGV[14..] fields and values
-- Replies: {"ok", ""}, {"gap", ""} where there are fewer, or others: then they go, and all of them are to be put again
local keys = {KEYS[8], KEYS[9], KEYS[10], KEYS[13]}
for i, key in ipairs(keys) do
  if redis.call('HLEN', key) ~= tonumber(ARGV[9 + i]) then
    redis.call('UNLINK', unpack(keys))
    return {'gap', ''}
  end
end
redis.call('HSET', KEYS[5], unpack(ARGV, 14))
-- No gate takes it for what it was when it left.
local time = redis.call('TIME')
redis.call('HSET', KEYS[5], 'version', string.format('%.0f', time[1] * 1000000 + time[2]), 'touched', ARGV[7])
redis.call('ZADD', KEYS[15], ARGV[8], ARGV[6])
if ARGV[9] ~= '' then
  redis.call('ZADD', KEYS[4], ARGV[9], ARGV[6])
end
return {'ok', ''}
