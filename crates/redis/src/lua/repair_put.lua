-- Writes some rows or shares of a campaign while the partition is halted. Idempotent.
-- KEYS[1] partition, KEYS[2] the key to write
-- ARGV[1] the repairer's token, ARGV[2] set (fields and values of a hash), del (fields of a hash), clear (the whole
-- key) or push (elements of a list), ARGV[3] for push, the number of elements before these, ARGV[4..] fields and
-- values, or elements
-- Replies: {"ok", ""}, {"gone", ""} if another process repairs, {"gap", length}
local p = redis.call('HMGET', KEYS[1], 'halted', 'repairer')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not p[1] or p[2] ~= ARGV[1] or string.sub(ARGV[1], -#server) ~= server then
  return {'gone', ''}
end
if ARGV[2] == 'set' then
  redis.call('HSET', KEYS[2], unpack(ARGV, 4))
elseif ARGV[2] == 'del' then
  redis.call('HDEL', KEYS[2], unpack(ARGV, 4))
elseif ARGV[2] == 'clear' then
  redis.call('UNLINK', KEYS[2])
else
  local length, before = redis.call('LLEN', KEYS[2]), tonumber(ARGV[3])
  if length < before then
    return {'gap', string.format('%d', length)}
  end
  if length == before then
    redis.call('RPUSH', KEYS[2], unpack(ARGV, 4))
  end
end
return {'ok', ''}
