-- The present state of an order.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number
-- Replies: {"ok", order}, {"unknown", ""}
-- luacheck: read globals c order_of text_of
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
return {'ok', ARGV[7] .. '\t' .. text_of(order)}
