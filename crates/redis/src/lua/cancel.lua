-- Cancels a held order, or some units of it: the units are restocked. A cancellation of some units has a key and acts
-- once per key. If it leaves no unit, or has no key, the order is cancelled, which is idempotent. A paid order that
-- cost nothing is returned instead, as in return_order.lua.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number, ARGV[8] units; empty: all that are left, ARGV[9] the key,
-- ARGV[10] how many parts of an order may be restocked
-- Replies: {"ok", order}, {"unknown", ""}, {"refused", state}, {"refused", "key"} where it was used for another part,
-- {"refused", "left " units} where the order has less, {"refused", "returns"} where it has as many parts
-- as may be. For an order that costs nothing, "free " precedes state and "left".
-- luacheck: read globals c int answer order_of text_of put_order move put step_past record finish
-- luacheck: read globals is_paid_for_nothing
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
local is_free = is_paid_for_nothing(order)
local refused = is_free and 'free ' or ''
local part = ARGV[8] ~= '' and (is_free and '' or 'c') .. ARGV[8]
local field = part and ARGV[7] .. '\t\t' .. ARGV[9]
local before = field and redis.call('HGET', KEYS[10], field)
if before then
  if before ~= part then
    return {'refused', 'key'}
  end
elseif order.state == 'h' or is_free and order.state == 'p' then
  local left = order.quantity - order.returned
  local units = tonumber(ARGV[8]) or left
  if units < 1 or units > left then
    return {'refused', refused .. 'left ' .. int(left)}
  end
  -- The last units of a held order are cancelled with the order.
  local is_part = field and (is_free or units < left)
  if is_part and order.returns >= tonumber(ARGV[10]) then
    return {'refused', 'returns'}
  end
  order.returns = order.returns + (is_part and 1 or 0)
  local event = 'cancelled '
  if is_free then
    order.returned = order.returned + units
    order.state = units == left and 'r' or 'p'
    event = 'returned '
  elseif is_part then
    order.quantity = left - units
    order.cancelled = order.cancelled + units
    order.amount = int(math.floor(tonumber(order.amount) / left * order.quantity))
    event = 'part_cancelled '
  else
    order.state = 'c'
  end
  put_order(order)
  move(order, -1, units)
  if order.state == 'c' then
    step_past(order)
  end
  if is_part then
    redis.call('HSET', KEYS[10], field, part)
    put('paid', redis.call('HLEN', KEYS[10]))
  end
  record(event .. ARGV[7] .. (is_part and ' ' .. ARGV[8] .. ' ' .. ARGV[9] or ''))
  finish()
elseif is_free and field or order.state ~= 'c' and not is_free then
  return {'refused', refused .. order.state}
end
return answer(ARGV[7] .. '\t' .. text_of(order))
