-- Does what is due for one campaign: first the oldest holds expire, so that their units can be granted again while the
-- campaign is open; then the window ends.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] about how many events at most
-- Replies: {"ok", events}, {"unknown", ""}, {"busy", ""} while units are moving elsewhere
-- luacheck: read globals c now int answer events phase_at put_order move skip_from oldest_hold record close finish
-- luacheck: read globals reschedule
local most = tonumber(ARGV[7])
while #events < most do
  local order, due = oldest_hold()
  if not order or due > now then
    break
  end
  order.state = 'x'
  put_order(order)
  move(order, -1)
  skip_from(order.number)
  record('expired ' .. int(order.number))
end
local busy = false
if #events < most and c.phase ~= 'c' and phase_at(now) == 'e' then
  busy = redis.call('HLEN', KEYS[11]) > 0
  if not busy then
    close()
  end
end
if #events == 0 then
  reschedule()
end
local count = #events
finish()
if busy then
  return {'busy', ''}
end
return answer(tostring(count))
