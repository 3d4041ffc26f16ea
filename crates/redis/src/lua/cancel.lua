-- Cancels an order: restocks the units of a held order, at most once. A paid order that cost nothing is returned
-- instead.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number
-- Replies: {"ok", order}, {"unknown", ""}, {"refused", state}
-- luacheck: read globals c int answer order_of text_of put_order move step_past record finish
-- luacheck: read globals is_paid_for_nothing
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
if order.state == 'h' then
  order.state = 'c'
  put_order(order)
  move(order, -1)
  step_past(order)
  record('cancelled ' .. ARGV[7])
  finish()
elseif order.state == 'p' and is_paid_for_nothing(order) then
  local left = order.quantity - order.returned
  order.state, order.returned = 'r', order.quantity
  put_order(order)
  move(order, -1, left)
  record('returned ' .. ARGV[7])
  finish()
elseif order.state ~= 'c' and not is_paid_for_nothing(order) then
  return {'refused', order.state}
end
return answer(ARGV[7] .. '\t' .. text_of(order))
