-- One campaign's numbers and orders, for all scripts but those that decide claims. `c` holds the campaign's fields;
-- `put` changes some of them, and `finish` writes what has changed, the log and the agenda.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: {"unknown", "campaign"} where it is not here
-- luacheck: read globals seq now int append held_until damaged broken_of
-- luacheck: ignore 211
local broken = broken_of(KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[13])
if broken then
  return damaged(broken)
end
local fields = {'kind', 'phase', 'starts', 'ends', 'remaining', 'granted', 'grants', 'returned', 'refunded', 'last',
  'version', 'rule', 'money', 'funded', 'limit', 'price', 'hold', 'parts', 'index', 'first', 'supply', 'opens',
  'terms', 'behind', 'admit', 'withheld', 'withheld_minor'}
local values = redis.call('HMGET', KEYS[5], unpack(fields))
if not values[1] then
  return {'unknown', 'campaign'}
end
local c = {}
for i, field in ipairs(fields) do
  c[field] = tonumber(values[i]) or values[i]
end
c.money = tonumber(c.money)
-- Grants are dated from `starts`, which stays, and the window begins at `opens`, where that was changed.
c.opens, c.terms, c.behind = c.opens or c.starts, c.terms or 0, c.behind or 0
-- What repairs withhold is not in `supply` and `funded`.
c.withheld, c.withheld_minor = c.withheld or 0, c.withheld_minor or 0
-- The last number that was given. Of a lazy packet it may be more than its grants, after a repair; it has no orders.
local numbered = math.max(c.granted, c.grants)
if c.kind ~= 'sale' then
  c.grants = 0
end

local events, changed, gate = {}, {}, false

local function put(field, value)
  c[field] = value
  changed[field] = true
end

local function phase_at(time)
  if (c.phase == 's' or c.phase == 'p') and time >= c.ends then
    return 'e'
  end
  if c.phase == 's' and time >= c.opens then
    return 'l'
  end
  return c.phase
end

-- Orders are numbered index + 1, index + 1 + parts, …, so that no two parts of a spread sale issue the same number.
local function number_of(ordinal)
  return c.index + 1 + c.parts * (ordinal - 1)
end

local function order_in(text, number)
  local state, refunds, user, quantity, returned, amount, offset, key =
    string.match(text, '^(%a)\t(%d+)\t([^\t]*)\t(%d+)%-?(%d*)\t(%d+)\t(-?%d+)\t(.*)$')
  return {number = number, state = state, refunds = tonumber(refunds), user = user, quantity = tonumber(quantity),
    returned = state == 'r' and tonumber(quantity) or tonumber(returned) or 0, amount = amount,
    offset = tonumber(offset), key = key}
end

local function order_of(number)
  local text = redis.call('HGET', KEYS[9], int(number))
  return text and order_in(text, number)
end

-- Behind the units of a paid order, a hyphen and those that were returned, if any were.
local function text_of(order)
  local quantity = order.quantity
  if order.state == 'p' and order.returned > 0 then
    quantity = int(quantity) .. '-' .. int(order.returned)
  end
  return table.concat({order.state, order.refunds, order.user, quantity, order.amount, int(order.offset),
    order.key}, '\t')
end

-- Whether an order costs nothing and is paid, or was and is returned.
local function is_paid_for_nothing(order)
  return order.amount == '0' and (order.state == 'p' or order.state == 'r')
end

local function put_order(order)
  redis.call('HSET', KEYS[9], int(order.number), text_of(order))
end

-- A buyer: units held, orders that gave theirs back, the newest order, and under which keys which orders were made: see
-- claim_sale.lua.
local function buyer_of(text)
  local held, returned, newest, keys = string.match(text, '^(%d+)\t(%d+)\t(%d+)(.*)$')
  return {held = tonumber(held), returned = tonumber(returned), newest = tonumber(newest), keys = keys}
end

local function put_buyer(user, buyer)
  redis.call('HSET', KEYS[8], user, int(buyer.held) .. '\t' .. buyer.returned .. '\t' .. int(buyer.newest)
    .. buyer.keys)
end

-- Takes an order's units (sign 1) or gives them back (sign -1): all, or a part of a paid order's.
local function move(order, sign, part)
  local units = sign * (part or order.quantity)
  local buyer = buyer_of(redis.call('HGET', KEYS[8], order.user))
  buyer.held = buyer.held + units
  if not part or order.state == 'r' then
    buyer.returned = buyer.returned - sign
  end
  put_buyer(order.user, buyer)
  put('granted', c.granted + units)
  if c.phase == 'c' then
    put('returned', c.returned - units)
  else
    -- Whether there is anything to be had changes for everybody.
    gate = gate or c.remaining == 0 or c.remaining == units
    put('remaining', c.remaining - units)
  end
end

-- How long an order keeps its units behind its hold, for payments that are reported late, and since when reports are
-- taken. Ticks know it, and read downtimes; others may have a tick look too early.
local grace, since = 0, 0

local function expires_at(order)
  return math.max(held_until(c.starts + order.offset, c.hold), since) + math.min(grace, c.hold)
end

-- When the order at `first` is due. All before it are not held any more; whether it still is, a tick finds out.
local function next_due()
  if c.first > c.grants then
    return nil
  end
  local order = order_of(number_of(c.first))
  return order and expires_at(order) or now
end

local function record(event)
  events[#events + 1] = event
end

local function amount_of(share)
  return tonumber(string.sub(share, 7))
end

-- What is left of a packet's money. Shares wait in a list; `sums` has the sums of its last 1000, 2000, …
local function money_left()
  if c.kind ~= 'red_packet' then
    return 0
  end
  if c.rule == 'lazy' then
    return c.money
  end
  if c.remaining == 0 or c.phase == 'c' then
    return 0
  end
  local whole = math.floor(c.remaining / 1000)
  local sum = whole > 0 and tonumber(redis.call('HGET', KEYS[7], int(whole))) or 0
  local rest = c.remaining - 1000 * whole
  if rest > 0 then
    for _, share in ipairs(redis.call('LRANGE', KEYS[6], 0, rest - 1)) do
      sum = sum + amount_of(share)
    end
  end
  return sum
end

-- Takes units in from another part, or back from the journal, and returns what shares among them are worth. Shares go
-- to the front, so that the sums of the shares behind them stay true.
local function take_in(units, shares, from)
  local money = 0
  if c.kind == 'red_packet' then
    local before = money_left()
    local sum, length = before, c.remaining
    for i = #shares, from, -1 do
      redis.call('LPUSH', KEYS[6], shares[i])
      sum, length = sum + amount_of(shares[i]), length + 1
      if length % 1000 == 0 then
        redis.call('HSET', KEYS[7], int(length / 1000), int(sum))
      end
    end
    money = sum - before
    put('funded', c.funded + money)
  end
  gate = gate or c.remaining == 0
  put('remaining', c.remaining + units)
  put('supply', c.supply + units)
  put('version', c.version + 1)
  return money
end

local function close()
  -- What a repair has withheld goes back with the rest.
  local units, minor = c.withheld, c.withheld_minor
  local money = money_left() + minor
  record('ended')
  record('closed ' .. int(c.remaining + units) .. ' ' .. int(money))
  put('returned', c.returned + c.remaining + units)
  put('refunded', c.refunded + money)
  put('remaining', 0)
  put('phase', 'c')
  if c.rule == 'lazy' then
    put('money', 0)
  end
  if units > 0 then
    put('supply', c.supply + units)
    put('funded', c.funded + minor)
    c.withheld, c.withheld_minor = 0, 0
    redis.call('HDEL', KEYS[5], 'withheld', 'withheld_minor', 'withheld_shares')
  end
  gate = true
  redis.call('UNLINK', KEYS[6], KEYS[7])
  redis.call('ZADD', KEYS[15], int(now), ARGV[6])
end

-- Numbers and texts of so many orders, from this one on.
local function orders_from(ordinal, count)
  local numbers = {}
  for n = ordinal, math.min(ordinal + count - 1, c.grants) do
    numbers[#numbers + 1] = int(number_of(n))
  end
  return numbers, redis.call('HMGET', KEYS[9], unpack(numbers))
end

local function is_held(text)
  return text and string.sub(text, 1, 1) == 'h'
end

-- When the next tick has something to do: at once, while other parts may not have followed the terms.
local function reschedule()
  local due = c.behind == 1 and now or next_due()
  if c.phase ~= 'c' then
    due = math.min(due or c.ends, c.ends)
  end
  if due then
    redis.call('ZADD', KEYS[4], int(due), ARGV[6])
  else
    redis.call('ZREM', KEYS[4], ARGV[6])
  end
  return due
end

-- Steps past an order that is not held any more, if it was the first, and past some of those behind it: ticks step past
-- the others.
local function step_past(order)
  local STEPS_MAX, READ_MAX = 100, 10
  local first = c.first + 1
  if order.number ~= number_of(c.first) then
    return
  end
  while first <= c.grants and first - c.first < STEPS_MAX do
    local _, texts = orders_from(first, READ_MAX)
    local held
    for _, text in ipairs(texts) do
      held = is_held(text)
      if held then
        break
      end
      first = first + 1
    end
    if held then
      break
    end
  end
  put('first', first)
  reschedule()
end

local function tally()
  local money = money_left()
  return table.concat({phase_at(now), int(c.supply + c.withheld), int(c.granted), int(c.remaining), int(c.returned),
    int(c.funded + c.withheld_minor), int(c.funded - money - c.refunded), int(money), int(c.refunded),
    int(c.kind == 'sale' and c.grants or c.granted), int(now), int(seq),
    int(c.version), int(c.opens), int(c.ends), int(c.limit), int(c.price or -1), int(c.terms),
    int(c.admit or 0), int(c.withheld), int(c.withheld_minor)}, ' ')
end

-- What the log says of terms.
local function terms_text()
  return table.concat({int(c.terms), int(c.opens), int(c.ends), int(c.limit), int(c.price), int(c.admit)}, ' ')
end

-- Writes what has changed.
local function finish()
  if gate then
    put('version', c.version + 1)
    redis.pcall('PUBLISH', KEYS[4] .. ':news', ARGV[6])
  end
  local set = {}
  for field in pairs(changed) do
    local value = c[field]
    set[#set + 1] = field
    set[#set + 1] = type(value) == 'number' and int(value) or value
  end
  if #set > 0 then
    redis.call('HSET', KEYS[5], unpack(set))
  end
  if #events > 0 then
    append(#events, now, 'e', table.concat(events, '\n'))
    if c.phase == 'c' then
      redis.call('HSET', KEYS[5], 'touched', int(seq))
    end
  end
end
