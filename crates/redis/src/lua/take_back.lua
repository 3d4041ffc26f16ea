-- Takes a paid order back: its units return to the stock, to be granted again while the campaign is open. Doing it
-- again changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number
-- Replies: {"ok", order}, {"unknown", ""}, {"refused", state}
-- luacheck: read globals c answer order_of text_of put_order move record finish
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
if order.state == 'p' then
  order.state = 'r'
  put_order(order)
  move(order, -1)
  record('returned ' .. ARGV[7])
  finish()
elseif order.state ~= 'r' then
  return {'refused', order.state}
end
return answer(ARGV[7] .. '\t' .. text_of(order))
