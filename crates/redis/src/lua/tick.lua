-- Does what is due for one campaign: first the oldest holds expire, so that their units can be granted again while the
-- campaign is open; then the window ends. `first` steps past orders that are not held any more: each once, and so many
-- a call that no call takes long.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] how many holds expire at most, ARGV[8] for so many milliseconds behind its hold
-- an order keeps its units, ARGV[9] no report of a payment was taken before then: 0 where neither this nor a downtime
-- that goes on counts, ARGV[10] "1" where one that goes on may count
-- Replies: {"ok", events " " (1 if more is due, else 0; 2 if the other parts have to follow the terms)},
-- {"unknown", ""}, {"busy", ""} while units move elsewhere
-- luacheck: read globals c now answer put events phase_at orders_from order_in is_held put_order move record close
-- luacheck: read globals finish reschedule expires_at downtimes expect_downtimes
-- luacheck: globals grace since
grace, since = tonumber(ARGV[8]), tonumber(ARGV[9])
expect_downtimes(ARGV[10] == '1' and since > 0)
if since > 0 and #downtimes > 0 then
  since = math.max(since, downtimes[#downtimes][2])
end
local STEPS_MAX, READ_MAX = 5000, 100
local most, steps, first = tonumber(ARGV[7]), STEPS_MAX, c.first
local waits = false
while not waits and first <= c.grants and steps > 0 and #events < most do
  local numbers, texts = orders_from(first, READ_MAX)
  for n, text in ipairs(texts) do
    if is_held(text) then
      local order = order_in(text, tonumber(numbers[n]))
      waits = expires_at(order) > now
      if waits or #events >= most then
        break
      end
      order.state = 'x'
      put_order(order)
      move(order, -1)
      record('expired ' .. numbers[n])
    end
    first = first + 1
    steps = steps - 1
  end
end
if first ~= c.first then
  put('first', first)
end
-- The window ends behind the holds that were due before it.
local busy = false
if (waits or first > c.grants) and #events < most and c.phase ~= 'c' and phase_at(now) == 'e' then
  busy = redis.call('HLEN', KEYS[11]) > 0
  if not busy then
    close()
  end
end
local due, count = reschedule(), #events
finish()
if busy then
  return {'busy', ''}
end
return answer(count .. ' ' .. (c.behind == 1 and 2 or due and due <= now and 1 or 0))
