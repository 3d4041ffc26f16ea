-- Extends the hold of a held order, once, by at most the hold of the sale. The same extension again changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number, ARGV[8] milliseconds, ARGV[9] "1" if a running downtime may
-- count, ARGV[10] how many holds may be extended at a time
-- Replies: {"ok", order}, {"unknown", ""}, {"refused", state}, {"refused", "by " milliseconds} where it was extended by
-- another time, {"refused", "max " milliseconds} where the extension is out of range, {"refused", "over"} where the
-- hold has ended, {"refused", "many"}
-- luacheck: read globals c now int answer order_of text_of put_order put step_past record finish reschedule
-- luacheck: read globals expect_downtimes held_until
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
local extension = tonumber(ARGV[8])
if order.extension == 0 or order.extension ~= extension then
  if order.state ~= 'h' then
    return {'refused', order.state}
  elseif order.extension > 0 then
    return {'refused', 'by ' .. int(order.extension)}
  elseif extension < 1 or extension > c.hold then
    return {'refused', 'max ' .. int(c.hold)}
  end
  expect_downtimes(ARGV[9] == '1')
  if now >= held_until(c.starts + order.offset, c.hold) then
    return {'refused', 'over'}
  end
  local _, extended = string.gsub(c.extended, ' ', '')
  if extended >= tonumber(ARGV[10]) then
    return {'refused', 'many'}
  end
  order.extension = extension
  put_order(order)
  put('extended', c.extended .. ' ' .. ARGV[7] .. ':' .. int(order.offset) .. ':' .. int(c.hold + extension))
  record('hold_extended ' .. ARGV[7] .. ' ' .. ARGV[8])
  step_past(order)
  reschedule()
  finish()
end
return answer(ARGV[7] .. '\t' .. text_of(order))
