-- Writes a run of a packet's shares before it opens: shares offset + 1 to offset + n of this shard. Idempotent on all
-- nodes.
-- KEYS as in prelude.lua
-- ARGV[1..8] as in reject_reopen.lua, ARGV[9] offset, ARGV[10] the number of sums that follow, then index and sum of
-- each,
-- then shares
-- Replies: {"ok", ""}, {"gap", length}
-- luacheck: read globals int
local length, offset = redis.call('LLEN', KEYS[6]), tonumber(ARGV[9])
if length < offset then
  return {'gap', int(length)}
end
if length == offset then
  local shares = 11 + 2 * tonumber(ARGV[10])
  if shares > 11 then
    redis.call('HSET', KEYS[7], unpack(ARGV, 11, shares - 1))
  end
  redis.call('RPUSH', KEYS[6], unpack(ARGV, shares))
end
return {'ok', ''}
