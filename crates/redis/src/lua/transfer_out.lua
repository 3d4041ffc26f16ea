-- First step of a transfer from this shard of a spread campaign to another: units leave the stock and stay in the
-- journal until the last step. Each receiver has at most one pending transfer. Each step that moves units appends an
-- entry, so that its loss is detected.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the receiving shard, ARGV[8] units wanted,
-- ARGV[9] maximum number of units, 0 to start no transfer
-- Replies: {"ok", transfer "\n" units "\n" share "\n" …}, {"unknown", ""}, {"none", ""}
-- luacheck: read globals c now seq int put phase_at amount_of record finish
-- luacheck: globals gate
local standing = redis.call('HGET', KEYS[11], ARGV[7])
if standing then
  return {'ok', standing, int(seq)}
end
local frozen = redis.call('HGET', KEYS[5], 'frozen')
if frozen then
  -- Another shard is being repaired, and its repairer reads this one: see repair_freeze.lua.
  local time = redis.call('TIME')
  local millis = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  if millis < tonumber(string.match(frozen, '^%d+')) then
    return {'none', ''}
  end
end
local phase = phase_at(now)
-- At least half of the units here, so that both shards can grant; a last unit moves whole.
local units = math.min(math.max(tonumber(ARGV[8]), math.ceil(c.remaining / 2)), c.remaining, tonumber(ARGV[9]))
if units == 0 or phase == 'e' or phase == 'c' then
  return {'none', ''}
end
local lines, money = {'', int(units)}, 0
if c.kind == 'red_packet' then
  for _, share in ipairs(redis.call('LPOP', KEYS[6], units)) do
    lines[#lines + 1] = share
    money = money + amount_of(share)
  end
  put('funded', c.funded - money)
end
put('remaining', c.remaining - units)
put('supply', c.supply - units)
put('version', c.version + 1)
gate = gate or c.remaining == 0
lines[1] = int(redis.call('HINCRBY', KEYS[5], 'sent', 1))
local journal = table.concat(lines, '\n')
redis.call('HSET', KEYS[11], ARGV[7], journal)
put('moving', redis.call('HLEN', KEYS[11]))
put('newest_transfer', ARGV[7] .. ' ' .. lines[1])
record(table.concat({'transferred_out', ARGV[7], int(units), int(money)}, ' '))
finish()
return {'ok', journal, int(seq)}
