-- Releases the units of a campaign that a repair withheld, so that they can be granted. For a lazy packet, it releases
-- only as many as there are numbers that no user can have received. The close returns the rest.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua
-- Replies: {"ok", units}, {"unknown", ""}
-- luacheck: read globals c int answer put take_in finish numbered
-- luacheck: globals gate
local units, minor = c.withheld, c.withheld_minor
local kept = 0
if units > 0 and c.rule == 'lazy' then
  kept = math.min(units, math.max(0, numbered + c.remaining - c.supply))
  put('money', c.money + minor)
  put('funded', c.funded + minor)
  put('remaining', c.remaining + units - kept)
  put('supply', c.supply + units - kept)
  gate = true
elseif units > 0 then
  local shares = {}
  for share in string.gmatch(redis.call('HGET', KEYS[5], 'withheld_shares') or '', '[^\n]+') do
    shares[#shares + 1] = share
  end
  take_in(units, shares, 1)
end
if units > 0 then
  redis.call('HDEL', KEYS[5], 'withheld', 'withheld_minor', 'withheld_shares')
  if kept > 0 then
    redis.call('HSET', KEYS[5], 'withheld', int(kept))
  end
  finish()
end
return answer(int(units - kept))
