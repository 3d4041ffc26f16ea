-- Notes that a node serves the partition now, and for how long none has. A clock that was set back takes along what was
-- noted by the time that has not come.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] "1" where the caller knows that it was not down,
-- and by a clock that it is given; what was noted later stays then, because its call may have been under way for long
-- Replies: {"ok", milliseconds that it was down; 0 if it was not, -1 if what was noted of it is lost}
-- luacheck: read globals now int up downtimes read_downtimes
local NOTED_MS, REMEMBERED_MAX = 1000, 64
local is_known = ARGV[7] == '1'
local was_down = read_downtimes() and (not is_known or up == 0)
local is_set_back = up and now < up and not is_known
local kept = {}
for _, downtime in ipairs(downtimes) do
  local ended = math.min(downtime[2], now)
  if downtime[1] < ended then
    kept[#kept + 1] = {downtime[1], ended}
  end
end
if was_down then
  kept[#kept + 1] = {up, now}
end
if #kept > REMEMBERED_MAX then
  -- The time between the two oldest counts as down: no hold is shorter for it.
  kept[2][1] = kept[1][1]
  table.remove(kept, 1)
end
if was_down or is_set_back then
  local texts = {}
  for i, downtime in ipairs(kept) do
    texts[i] = int(downtime[1]) .. ':' .. int(downtime[2])
  end
  redis.call('HSET', KEYS[1], 'up', int(now), 'downs', table.concat(texts, ' '))
elseif not up or now - up >= NOTED_MS then
  redis.call('HSET', KEYS[1], 'up', int(now))
end
local down = 0
if was_down then
  down = up == 0 and -1 or now - up
end
return {'ok', int(down)}
