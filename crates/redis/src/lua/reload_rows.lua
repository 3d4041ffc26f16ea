-- Writes some rows or shares of a campaign that is being reloaded. No script finds them yet. Idempotent.
-- KEYS as in prelude.lua
-- ARGV[1..7] as in reload.lua, ARGV[8] until when these may exist without the rest, in milliseconds, ARGV[9] the number
-- of the key among KEYS, ARGV[10..] fields and values; for shares, the number of shares before them, and the shares
-- Replies: {"ok", ""}, {"gap", ""} if fewer shares are there
redis.call('ZADD', KEYS[15], ARGV[8], ARGV[6])
if ARGV[9] == '6' then
  local length, before = redis.call('LLEN', KEYS[6]), tonumber(ARGV[10])
  if length < before then
    return {'gap', ''}
  elseif length == before then
    redis.call('RPUSH', KEYS[6], unpack(ARGV, 11))
  end
  return {'ok', ''}
end
local keys = {[7] = KEYS[7], [8] = KEYS[8], [9] = KEYS[9], [10] = KEYS[10], [13] = KEYS[13]}
redis.call('HSET', keys[tonumber(ARGV[9])], unpack(ARGV, 10))
return {'ok', ''}
