-- Gives back what a repair has withheld of a campaign: the units can be had again.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua
-- Replies: {"ok", units}, {"unknown", ""}
-- luacheck: read globals c int answer put take_in finish
-- luacheck: globals gate
local withheld = redis.call('HMGET', KEYS[5], 'withheld', 'withheld_minor', 'withheld_shares')
local units, minor = tonumber(withheld[1] or 0), tonumber(withheld[2] or 0)
if units > 0 and c.rule == 'lazy' then
  put('money', c.money + minor)
  put('funded', c.funded + minor)
  put('remaining', c.remaining + units)
  put('supply', c.supply + units)
  gate = true
elseif units > 0 then
  local shares = {}
  for share in string.gmatch(withheld[3] or '', '[^\n]+') do
    shares[#shares + 1] = share
  end
  take_in(units, shares, 1)
end
if units > 0 then
  redis.call('HDEL', KEYS[5], 'withheld', 'withheld_minor', 'withheld_shares')
  finish()
end
return answer(int(units))
