-- Counters and orders of one campaign, for all scripts that do not decide claims. `c` contains the campaign's
-- fields. `put` changes a field. `finish` writes changed fields and appends events to the log.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: {"unknown", "campaign"} if Redis does not have the campaign
-- luacheck: read globals seq now int append held_until damaged broken_of schedule
-- luacheck: ignore 211
local broken = broken_of(KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[13])
if broken then
  return damaged(broken)
end
local fields = {'kind', 'phase', 'starts', 'ends', 'remaining', 'granted', 'grants', 'returned', 'refunded', 'last',
  'version', 'rule', 'money', 'funded', 'limit', 'price', 'hold', 'parts', 'index', 'first', 'supply', 'opens',
  'terms', 'behind', 'admit', 'withheld', 'withheld_minor', 'skipped', 'extended'}
local values = redis.call('HMGET', KEYS[5], unpack(fields))
if not values[1] then
  return {'unknown', 'campaign'}
end
local c = {}
for i, field in ipairs(fields) do
  c[field] = tonumber(values[i]) or values[i]
end
c.money = tonumber(c.money)
-- Grants are dated from `starts`, which never changes. The window begins at `opens` if that was changed.
c.opens, c.terms, c.behind = c.opens or c.starts, c.terms or 0, c.behind or 0
-- `supply` and `funded` exclude what repairs withhold.
c.withheld, c.withheld_minor = c.withheld or 0, c.withheld_minor or 0
-- Extended holds of held orders, each as " number:offset:milliseconds" with the offset of the grant and the whole hold.
c.extended = c.extended or ''
-- The last number issued. After a repair, the last number of a lazy packet may exceed its grants; it has no orders.
local numbered = math.max(c.granted, c.grants)
if c.kind ~= 'sale' then
  c.grants = 0
end
-- Ordinals that a repair has skipped: no order has them.
local skipped_runs, skipped = {}, 0
for from, to in string.gmatch(c.skipped or '', '(%d+)%-(%d+)') do
  skipped_runs[#skipped_runs + 1] = {tonumber(from), tonumber(to)}
  skipped = skipped + tonumber(to) - tonumber(from) + 1
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

-- Orders are numbered index + 1, index + 1 + parts, …, so no two shards of a spread sale issue the same number.
local function number_of(ordinal)
  return c.index + 1 + c.parts * (ordinal - 1)
end

local function order_in(text, number)
  local state, refunds, user, quantity, returned, returns, cancelled, amount, offset, extension, key =
    string.match(text, '^(%a)\t(%d+)\t([^\t]*)\t(%d+)%-?(%d*)%-?(%d*)%-?(%d*)\t(%d+)\t(-?%d+)%+?(%d*)\t(.*)$')
  return {number = number, state = state, refunds = tonumber(refunds), user = user, quantity = tonumber(quantity),
    returned = state == 'r' and tonumber(quantity) or tonumber(returned) or 0, returns = tonumber(returns) or 0,
    cancelled = tonumber(cancelled) or 0, amount = amount, offset = tonumber(offset),
    extension = tonumber(extension) or 0, key = key}
end

local function order_of(number)
  local text = redis.call('HGET', KEYS[9], int(number))
  return text and order_in(text, number)
end

-- If units of an order were returned, two numbers follow its units, each after a hyphen: those units, and its restocked
-- parts. If units were cancelled while it was held, their number is the third one. If its hold was extended, a plus
-- sign and the milliseconds follow its offset.
local function text_of(order)
  local quantity = order.quantity
  local returned = order.state == 'p' and order.returned or 0
  if returned > 0 or order.cancelled > 0 then
    quantity = int(quantity) .. '-' .. int(returned) .. '-' .. int(order.returns)
      .. (order.cancelled > 0 and '-' .. int(order.cancelled) or '')
  end
  local offset = int(order.offset) .. (order.extension > 0 and '+' .. int(order.extension) or '')
  return table.concat({order.state, order.refunds, order.user, quantity, order.amount, offset, order.key}, '\t')
end

-- Whether an order costs nothing and is paid, or was paid and is returned.
local function is_paid_for_nothing(order)
  return order.amount == '0' and (order.state == 'p' or order.state == 'r')
end

-- Removes an order from the extended holds.
local function end_extension(number)
  local rest, count = string.gsub(c.extended, ' ' .. int(number) .. ':%-?%d+:%d+', '', 1)
  if count > 0 then
    put('extended', rest)
  end
end

local function put_order(order)
  if order.extension > 0 and order.state ~= 'h' then
    end_extension(order.number)
  end
  local number, text = int(order.number), text_of(order)
  redis.call('HSET', KEYS[9], number, text)
  put('newest_order', number .. '\n' .. text)
end

-- Buyer row: units held, orders whose units were restocked, the newest order, and the keys with their orders. See
-- claim_sale.lua.
local function buyer_of(text)
  local held, returned, newest, keys = string.match(text, '^(%d+)\t(%d+)\t(%d+)(.*)$')
  return {held = tonumber(held), returned = tonumber(returned), newest = tonumber(newest), keys = keys}
end

local function put_buyer(user, buyer)
  local row = int(buyer.held) .. '\t' .. buyer.returned .. '\t' .. int(buyer.newest) .. buyer.keys
  redis.call('HSET', KEYS[8], user, row)
  put('newest_buyer', user .. '\n' .. row)
end

-- Moves units of an order: sign 1 takes them from the stock, sign -1 restocks them. `part` limits this to some of its
-- units.
local function move(order, sign, part)
  local units = sign * (part or order.quantity)
  local buyer = buyer_of(redis.call('HGET', KEYS[8], order.user))
  buyer.held = buyer.held + units
  if not part or order.state ~= 'p' and order.state ~= 'h' then
    buyer.returned = buyer.returned - sign
  end
  put_buyer(order.user, buyer)
  put('granted', c.granted + units)
  if c.phase == 'c' then
    put('returned', c.returned - units)
  else
    -- Availability changes for all users.
    gate = gate or c.remaining == 0 or c.remaining == units
    put('remaining', c.remaining - units)
  end
end

-- How long an order keeps its units after its hold, so that late payment reports still count; and since when reports
-- are accepted. Only ticks set both and read downtimes. Other scripts may schedule a tick too early.
local grace, since = 0, 0

-- When an order expires that was granted at this offset and is held for this time.
local function expires_at(offset, length)
  return math.max(held_until(c.starts + offset, length), since) + math.min(grace, c.hold)
end

-- When the first extended hold is due, or the order at `first`. No earlier order is held without an extension. The tick
-- checks whether this one still is.
local function next_due()
  local due
  if c.first <= c.grants then
    local order = order_of(number_of(c.first))
    due = order and expires_at(order.offset, c.hold) or now
  end
  for offset, length in string.gmatch(c.extended, ':(%-?%d+):(%d+)') do
    local expires = expires_at(tonumber(offset), tonumber(length))
    due = math.min(due or expires, expires)
  end
  return due
end

local function record(event)
  events[#events + 1] = event
end

local function amount_of(share)
  return tonumber(string.sub(share, 7))
end

-- Remaining money of a packet. Its shares are in a list; `sums` has the sums of the last 1000, 2000, … shares.
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

-- Adds units from another shard or from the journal, and returns the value of their shares. Shares are inserted at the
-- front, so the stored sums of the shares after them remain correct.
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
  -- Units that a repair withheld are returned with the rest.
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

-- This ordinal, or the next one that is not skipped.
local function not_skipped(ordinal)
  for _, run in ipairs(skipped_runs) do
    if run[1] <= ordinal and ordinal <= run[2] then
      ordinal = run[2] + 1
    end
  end
  return ordinal
end

-- Numbers and texts of up to `count` orders, starting at this one, up to the next skipped ones.
local function orders_from(ordinal, count)
  local numbers, last = {}, math.min(ordinal + count - 1, c.grants)
  for _, run in ipairs(skipped_runs) do
    last = run[1] > ordinal and math.min(last, run[1] - 1) or last
  end
  for n = ordinal, last do
    numbers[#numbers + 1] = int(number_of(n))
  end
  return numbers, redis.call('HMGET', KEYS[9], unpack(numbers))
end

-- Whether an order is held and its hold is not extended.
local function is_held(text)
  return text and string.sub(text, 1, 1) == 'h'
    and not string.find(text, '^h\t%d+\t[^\t]*\t[^\t]*\t%d+\t%-?%d+%+')
end

-- Schedules the next tick. It is due at once while other shards may lack the changed terms.
local function reschedule()
  local due = c.behind == 1 and now or next_due()
  if c.phase ~= 'c' then
    due = math.min(due or c.ends, c.ends)
  end
  schedule(KEYS[1], KEYS[4], ARGV[6], due and int(due))
  return due
end

-- Advances `first` past an order that is no longer held, or whose hold was extended, if it was the first, and past some
-- orders after it. Ticks advance past the rest.
local function step_past(order)
  local STEPS_MAX, READ_MAX = 100, 10
  local first = not_skipped(c.first + 1)
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
    first = not_skipped(first)
  end
  put('first', first)
  reschedule()
end

local function tally()
  local money = money_left()
  return table.concat({phase_at(now), int(c.supply + c.withheld), int(c.granted), int(c.remaining), int(c.returned),
    int(c.funded + c.withheld_minor), int(c.funded - money - c.refunded), int(money), int(c.refunded),
    int(c.kind == 'sale' and c.grants - skipped or c.granted), int(now), int(seq),
    int(c.version), int(c.opens), int(c.ends), int(c.limit), int(c.price or -1), int(c.terms),
    int(c.admit or 0), int(c.withheld), int(c.withheld_minor),
    int(c.kind == 'sale' and c.grants or numbered)}, ' ')
end

-- Terms in the form of a log entry.
local function terms_text()
  return table.concat({int(c.terms), int(c.opens), int(c.ends), int(c.limit), int(c.price), int(c.admit)}, ' ')
end

-- Writes changed fields, and appends the events.
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
