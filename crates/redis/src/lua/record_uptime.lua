-- Records that a node serves the partition now, and the downtime before it. If the clock was set back, recorded times
-- in the future are cut off.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] "1" if the caller knows that the partition was not down, and gives the time
-- itself; later records are then kept, because the call may have been in flight for long
-- Replies: {"ok", milliseconds of downtime; 0 if it was not down, -1 if the recorded downtimes are lost}
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
  -- Two oldest downtimes are merged, so the time between them counts as down. This shortens no hold.
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
