-- Returns a paid order, or some units of it: the units are restocked, and can be granted while the campaign is open. A
-- return of some units has a key and acts once per key. Without a key, the return is idempotent.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number, ARGV[8] units; empty: all that are left, ARGV[9] the key,
-- ARGV[10] how many returns of parts an order may have
-- Replies: {"ok", order}, {"unknown", ""}, {"refused", state}, {"refused", "key"} where it was used for other units,
-- {"refused", "left " units} where the order has less, {"refused", "returns"} where it has as many returns as may be
-- luacheck: read globals c int answer order_of text_of put_order move put record finish
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
local field = ARGV[8] ~= '' and ARGV[7] .. '\t\t' .. ARGV[9]
local before = field and redis.call('HGET', KEYS[10], field)
if before then
  if before ~= ARGV[8] then
    return {'refused', 'key'}
  end
elseif order.state == 'p' then
  local left = order.quantity - order.returned
  local units = tonumber(ARGV[8]) or left
  if units < 1 or units > left then
    return {'refused', 'left ' .. int(left)}
  end
  if field and order.returns >= tonumber(ARGV[10]) then
    return {'refused', 'returns'}
  end
  order.returns = order.returns + (field and 1 or 0)
  order.returned = order.returned + units
  if units == left then
    order.state = 'r'
  end
  put_order(order)
  move(order, -1, units)
  if field then
    redis.call('HSET', KEYS[10], field, ARGV[8])
    put('paid', redis.call('HLEN', KEYS[10]))
  end
  record('returned ' .. ARGV[7] .. (field and ' ' .. ARGV[8] .. ' ' .. ARGV[9] or ''))
  finish()
elseif field or order.state ~= 'r' then
  return {'refused', order.state}
end
return answer(ARGV[7] .. '\t' .. text_of(order))
