-- Does what the time has made due for one campaign: the oldest holds first, so that units that expire while it is
-- open can be had again, then the end of the window.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] events at most, about
-- Replies: {"ok", events}, {"unknown", ""}, {"busy", ""} while units are on their way elsewhere
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
