-- Rejects the transfers that another shard of a spread campaign sent before its repair, and deletes pending transfers
-- to it. The repair counts these units. An entry records it, so a loss of this step is detected.
-- Each attempt at a repair names a higher transfer than the attempt before. Transfers that the shard sends after its
-- repair are higher still. So a stopped repairer is refused once another one has done the repair: units sent there
-- since then belong to that shard.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the shard that is repaired, ARGV[8] the last transfer that it may have begun
-- Replies: {"ok", ""}, {"unknown", ""}, {"stale", last} if a later transfer is known
-- luacheck: read globals c seq int put record finish
local field = 'from:' .. ARGV[7]
local last = tonumber(redis.call('HGET', KEYS[5], field) or 0)
if last > tonumber(ARGV[8]) then
  return {'stale', int(last)}
end
local is_behind = last < tonumber(ARGV[8])
local is_moving = redis.call('HDEL', KEYS[11], ARGV[7]) == 1
redis.call('HSET', KEYS[5], 'moving', redis.call('HLEN', KEYS[11]))
if string.match(redis.call('HGET', KEYS[5], 'newest_transfer') or '', '^%d+') == ARGV[7] then
  redis.call('HDEL', KEYS[5], 'newest_transfer')
end
if is_behind then
  redis.call('HSET', KEYS[5], field, ARGV[8])
end
if is_behind or is_moving then
  put('version', c.version + 1)
  record('transferred_in ' .. ARGV[7] .. ' 0 0')
  finish()
end
return {'ok', '', int(seq)}
