-- Second step of a transfer: adds the units, at most once. A closed shard accepts none.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the sending shard, ARGV[8] transfer, ARGV[9] units, ARGV[10..] shares
-- Replies: {"ok", ""}, {"unknown", ""}, {"closed", ""}
-- luacheck: read globals c seq int take_in record finish
local field = 'from:' .. ARGV[7]
local last = tonumber(redis.call('HGET', KEYS[5], field) or 0)
if tonumber(ARGV[8]) <= last then
  return {'ok', '', int(seq)}
end
if c.phase == 'c' then
  return {'closed', ''}
end
local money = take_in(tonumber(ARGV[9]), ARGV, 10)
redis.call('HSET', KEYS[5], field, ARGV[8])
record(table.concat({'transferred_in', ARGV[7], ARGV[9], int(money)}, ' '))
finish()
return {'ok', '', int(seq)}
