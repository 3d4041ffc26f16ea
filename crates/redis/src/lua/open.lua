-- Opens a campaign or one shard of it, once its shares are in place. Idempotent.
-- KEYS as in prelude.lua
-- ARGV[1..8] as in reject_reopen.lua, ARGV[9] shares that must be in place, ARGV[10..] the campaign's fields and values
-- Replies: {"ok", ""}, {"gap", length}
-- luacheck: read globals now append schedule skip_numbers
local length = redis.call('LLEN', KEYS[6])
if length ~= tonumber(ARGV[9]) then
  return {'gap', string.format('%d', length)}
end
redis.call('HSET', KEYS[5], unpack(ARGV, 10))
skip_numbers(ARGV[6], KEYS[5])
local c = redis.call('HMGET', KEYS[5], 'ends', 'parts')
append(1, now, 'e', 'opened ' .. c[2])
schedule(KEYS[1], KEYS[4], ARGV[6], c[1])
return {'ok', ''}
