-- Performs what is due for one campaign. First extended holds expire, by number, then the oldest other ones, so that
-- their units can be granted again while the campaign is open. Then the window ends. `first` advances once past each
-- order that is not held, up to a limit per call, so that no call takes long.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] maximum number of holds that expire, ARGV[8] milliseconds that an order keeps
-- its units after its hold, ARGV[9] time before which no payment report was accepted; 0 if neither this nor a running
-- downtime counts, ARGV[10] "1" if a running downtime may count
-- Replies: {"ok", events " " (1 if more is due, else 0; 2 if the other shards must follow the terms)}, {"unknown", ""},
-- {"busy", ""} while a transfer of units is pending
-- luacheck: read globals c now answer put events phase_at orders_from order_in is_held put_order move record close
-- luacheck: read globals finish reschedule expires_at downtimes expect_downtimes not_skipped order_of end_extension
-- luacheck: globals grace since
grace, since = tonumber(ARGV[8]), tonumber(ARGV[9])
expect_downtimes(ARGV[10] == '1' and since > 0)
if since > 0 and #downtimes > 0 then
  since = math.max(since, downtimes[#downtimes][2])
end
local STEPS_MAX, READ_MAX = 5000, 100
local most, steps, first = tonumber(ARGV[7]), STEPS_MAX, not_skipped(c.first)
local function expire(order)
  order.state = 'x'
  put_order(order)
  move(order, -1)
  record('expired ' .. string.format('%d', order.number))
end

local extended = {}
for number, offset, length in string.gmatch(c.extended, ' (%d+):(%-?%d+):(%d+)') do
  if expires_at(tonumber(offset), tonumber(length)) <= now then
    extended[#extended + 1] = tonumber(number)
  end
end
table.sort(extended)
for _, number in ipairs(extended) do
  if #events >= most then
    break
  end
  local order = order_of(number)
  if order and order.state == 'h' then
    expire(order)
  else
    end_extension(number)
  end
end

local waits = false
while not waits and first <= c.grants and steps > 0 and #events < most do
  local numbers, texts = orders_from(first, READ_MAX)
  for n, text in ipairs(texts) do
    if is_held(text) then
      local order = order_in(text, tonumber(numbers[n]))
      waits = expires_at(order.offset, c.hold) > now
      if waits or #events >= most then
        break
      end
      expire(order)
    end
    first = first + 1
    steps = steps - 1
  end
  first = not_skipped(first)
end
if first ~= c.first then
  put('first', first)
end
-- The window ends after the holds that were due before its end.
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
