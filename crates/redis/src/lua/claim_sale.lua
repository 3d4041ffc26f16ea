-- Decides a batch of claims for units of one sale. All checks of a claim precede its writes. Each kind of row is
-- written with one command for the whole batch, up to the limit of `set_fields`.
--
-- A buyer's row contains the keys of the first orders, so most claims need no other read. Keys that would make the row
-- longer than about KEYS_BYTES_MAX are fields of the hash `keys`. A "+" before the first key indicates them.
--
-- An order that costs nothing is paid in the same step. The log has its payment after its grant.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] values per claim, ARGV[8..] the claims, as in batch.lua
-- Replies: {"ok", head "\n" outcome "\n" outcome …}, see reply.rs; {"unknown", ""}
-- luacheck: read globals seq now int append answer invalidate users_of refusal_of set_fields damaged length schedule
-- luacheck: read globals is_older skipped_of
local step = tonumber(ARGV[7])
local n = (#ARGV - 7) / step
local users, first = users_of(7, n, step)
local c = redis.pcall('HMGET', KEYS[5], 'kind', 'phase', 'starts', 'ends', 'remaining', 'granted', 'last', 'version',
  'grants', 'limit', 'price', 'hold', 'parts', 'index', 'first', 'opens', 'buyers', 'keyed',
  'paid', 'admit', 'newest_buyer', 'newest_order')
if c.err then
  return damaged('campaign')
elseif c[1] ~= 'sale' then
  return {'unknown', ''}
end
-- The campaign's keys must agree: see whole.lua.
local known, numbered, skipped = length('HLEN', KEYS[8]), length('HLEN', KEYS[9]), 0
if numbered ~= tonumber(c[9]) then
  skipped = skipped_of(KEYS[5])
  numbered = numbered + skipped
end
if known < 0 or c[17] and known < tonumber(c[17]) or c[21] and is_older(KEYS[8], c[21]) then
  return damaged('users')
elseif numbered ~= tonumber(c[9]) or c[22] and is_older(KEYS[9], c[22]) then
  return damaged('orders')
elseif c[18] and length('HLEN', KEYS[13]) < tonumber(c[18]) then
  return damaged('keys')
end
local is_free = tonumber(c[11]) == 0
if is_free and length('HLEN', KEYS[10]) < tonumber(c[19] or 0) then
  return damaged('payments')
end
local starts, left, grants, limit = tonumber(c[3]), tonumber(c[5]), tonumber(c[9]), tonumber(c[10])
local price, parts, index = tonumber(c[11]), tonumber(c[13]), tonumber(c[14])
local admission = ' = ' .. c[20] .. '\n'
local returned_max = 16 -- RETURNED_ORDERS_PER_USER_MAX
local KEYS_BYTES_MAX = 1024
local NUMBER_MAX = 4294967295 -- orders are numbered in 32 bits
local opens = tonumber(c[16]) or starts
local refusal = refusal_of(c[2], opens, tonumber(c[4]))
if refusal == 'N' then
  refusal = 'N' .. int(opens)
end
local held = redis.call('HMGET', KEYS[8], unpack(users, first + 1, first + n))
local at, latest = now, tonumber(c[7])
if latest > now and latest - now <= 60000 then -- JUMP_MS_MAX: a time further ahead comes from a clock glitch
  at = latest
end
local tail = '\t' .. int(at - starts) .. '\t'

-- A buyer is {units held, orders restocked, newest order, "+"? "\n" key "\t" order …}. `made` has the orders of this
-- batch by number, `further` the numbers of further keys by user and key.
local buyers, bought, made, further = {}, {}, {}, {}
local function order_of(number)
  return made[number] or redis.call('HGET', KEYS[9], number)
end

-- The number of the order that a buyer's key made.
local function number_under(keys, user, key)
  local _, found = string.find(keys, '\n' .. key .. '\t', 1, true)
  if found then
    return string.match(keys, '^%d+', found + 1)
  end
  if string.byte(keys) == 43 then
    local field = user .. '\t' .. key
    local number = further[field] or redis.call('HGET', KEYS[13], field)
    local order = number and order_of(number)
    -- A repair may have issued the number to another user.
    local own = order and string.match(order, '^%a\t%d+\t([^\t]*)\t') == user
    return own and string.sub(order, -#key - 1) == '\t' .. key and number or nil
  end
end

local out, rows, count, units = {}, {}, 0, 0
local payments = {} -- of orders that cost nothing: fields and outcomes
for i = 1, n do
  local user = users[first + i]
  local quantity, key = 1, ''
  if step == 3 then
    quantity, key = tonumber(ARGV[6 + 3 * i]), ARGV[7 + 3 * i]
  end
  local buyer = buyers[user]
  if not buyer and held[i] then
    local own, given, newest, keys = string.match(held[i], '^(%d+)\t(%d+)\t(%d+)(.*)$')
    buyer = {tonumber(own), tonumber(given), newest, keys}
    buyers[user] = buyer
  end
  local outcome
  if buyer then
    if key ~= '' then
      local number = number_under(buyer[4], user, key)
      if number then
        local order = order_of(number)
        -- Units may have been cancelled since.
        local has, cancelled = string.match(order, '^%a\t%d+\t[^\t]*\t(%d+)%-?%d*%-?%d*%-?(%d*)')
        local same = tonumber(has) + (tonumber(cancelled) or 0) == quantity
        outcome = same and 'A' .. number .. '\t' .. order or 'K'
      end
    end
    -- Without a key, the user is the key. A retry with a key that the order does not have is refused, because that key
    -- would then always mean this order.
    if not outcome and limit == 1 and key == '' then
      local order = order_of(buyer[3])
      local state = string.sub(order, 1, 1)
      if state == 'h' or state == 'p' then
        outcome = 'A' .. buyer[3] .. '\t' .. order
      end
    end
  end
  outcome = outcome or refusal
  if not outcome then
    local own = buyer and buyer[1] or 0
    if quantity > limit - own or buyer and buyer[2] >= returned_max or index + 1 + parts * grants > NUMBER_MAX then
      outcome = 'L' .. int(own) .. ' ' .. int(limit)
    elseif quantity > left then
      outcome = 'S' .. int(left)
    else
      local number = int(index + 1 + parts * grants)
      local amount = int(price * quantity)
      grants, units, left, count = grants + 1, units + quantity, left - quantity, count + 1
      if buyer then
        buyer[1], buyer[3] = own + quantity, number
      else
        known = known + 1
        buyer = {quantity, 0, number, ''}
        buyers[user] = buyer
      end
      if key ~= '' then
        local keys = buyer[4]
        if #keys + #key < KEYS_BYTES_MAX then
          buyer[4] = keys .. '\n' .. key .. '\t' .. number
        else
          further[user .. '\t' .. key] = number
          if string.byte(keys) ~= 43 then
            buyer[4] = '+' .. keys
          end
        end
      end
      bought[user] = true
      local asked = int(quantity)
      local state = is_free and 'p' or 'h'
      made[number] = state .. '\t0\t' .. user .. '\t' .. asked .. '\t' .. amount .. tail .. key
      outcome = number .. '\t' .. amount .. tail .. asked .. '\t' .. key
      if is_free then
        local payment = 'free-' .. ARGV[6] .. '-' .. number
        payments[2 * count - 1], payments[2 * count] = number .. '\t' .. payment, 'p'
        rows[2 * count - 1] = 'granted ' .. number .. ' ' .. user .. ' ' .. asked .. ' ' .. amount
          .. (key ~= '' and ' ' .. key or '')
        rows[2 * count] = 'paid ' .. number .. ' ' .. payment
      else
        rows[2 * count - 1], rows[2 * count] = user, outcome
      end
    end
  end
  out[i] = outcome
end

if next(further) and length('HLEN', KEYS[13]) < 0 then
  return damaged('keys')
end
local version = c[8]
if count > 0 then
  local set, size = {}, 0
  for user in pairs(bought) do
    local buyer = buyers[user]
    set[size + 1] = user
    set[size + 2] = int(buyer[1]) .. '\t' .. buyer[2] .. '\t' .. buyer[3] .. buyer[4]
    size = size + 2
  end
  set_fields(KEYS[8], set, size)
  local newest_buyer = set[size - 1] .. '\n' .. set[size]
  set, size = {}, 0
  for number, order in pairs(made) do
    set[size + 1], set[size + 2] = number, order
    size = size + 2
  end
  set_fields(KEYS[9], set, size)
  local newest_order = set[size - 1] .. '\n' .. set[size]
  if next(further) then
    set, size = {}, 0
    for field, number in pairs(further) do
      set[size + 1], set[size + 2] = field, number
      size = size + 2
    end
    set_fields(KEYS[13], set, size)
    redis.call('HSET', KEYS[5], 'keyed', redis.call('HLEN', KEYS[13]))
  end
  local before = tonumber(c[9])
  local none_held = tonumber(c[15]) > before
  if is_free then
    set_fields(KEYS[10], payments, 2 * count)
    redis.call('HSET', KEYS[5], 'paid', redis.call('HLEN', KEYS[10]))
    if none_held then
      redis.call('HSET', KEYS[5], 'first', int(grants + 1))
    end
    append(2 * count, at, 'e', table.concat(rows, '\n'))
  elseif none_held then
    -- The first of these holds may be due next.
    local due = math.min(at + tonumber(c[12]), tonumber(c[4]))
    schedule(KEYS[1], KEYS[4], ARGV[6], int(due), 'LT')
  end
  if not is_free then
    append(count, at, 'o', table.concat(rows, '\n'))
  end
  redis.call('HSET', KEYS[5], 'remaining', int(left), 'granted', int(tonumber(c[6]) + units), 'grants', int(grants),
    'last', int(at), 'buyers', known, 'newest_buyer', newest_buyer, 'newest_order', newest_order)
  -- Also at the first grant. Gates that know of no grant would otherwise answer its user by a clock that was set back.
  if left == 0 or before == skipped then
    version = invalidate()
  end
end

local text = int(now) .. ' ' .. int(seq) .. ' ' .. int(left) .. ' ' .. version .. admission
  .. table.concat(out, '\n')
if count > 0 or ARGV[5] == '1' then
  return answer(text)
end
return {'ok', text, int(seq)}
