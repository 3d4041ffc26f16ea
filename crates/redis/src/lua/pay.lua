-- Records a payment for an order. In time for the hold, the order becomes paid. An order whose hold had ended by then
-- expires first; after expiry it takes its units again if they are left, else the payment is to be refunded. The same
-- payment again is answered as before. An order that costs nothing and is paid takes no payment: nothing arrives.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number, ARGV[8] the payment, ARGV[9] when it was made; empty: now,
-- ARGV[10] how many payments of an order may be owed back, ARGV[11] "1" where a downtime that goes on may count
-- Replies: {"ok", (p|r|d|f, where there is nothing to pay) " " order}, {"unknown", ""}, {"refused", "payments"}
-- luacheck: read globals c now int answer phase_at order_of text_of put_order buyer_of move step_past record finish
-- luacheck: read globals expect_downtimes held_until put is_paid_for_nothing
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
local field = ARGV[7] .. '\t' .. ARGV[8]
local outcome = redis.call('HGET', KEYS[10], field)
if not outcome and is_paid_for_nothing(order) then
  outcome = 'f'
elseif not outcome then
  if order.refunds >= tonumber(ARGV[10]) then
    return {'refused', 'payments'}
  end
  outcome = 'd'
  local was_held = order.state == 'h'
  expect_downtimes(ARGV[11] == '1')
  -- Nothing is paid later than it is reported.
  if was_held and math.min(tonumber(ARGV[9]) or now, now) >= held_until(c.starts + order.offset, c.hold) then
    order.state = 'x'
    move(order, -1)
    record('expired ' .. ARGV[7])
  end
  if order.state == 'h' then
    outcome = 'p'
    order.state = 'p'
  elseif order.state == 'x' then
    local phase = phase_at(now)
    local held = buyer_of(redis.call('HGET', KEYS[8], order.user)).held
    if (phase == 'l' or phase == 'p') and order.quantity <= c.remaining and order.quantity <= c.limit - held then
      outcome = 'r'
      order.state = 'p'
      move(order, 1)
    end
  end
  if outcome == 'd' then
    order.refunds = order.refunds + 1
  end
  put_order(order)
  if was_held then
    step_past(order)
  end
  redis.call('HSET', KEYS[10], field, outcome)
  put('paid', redis.call('HLEN', KEYS[10]))
  local names = {p = 'paid ', r = 'reinstated ', d = 'refund_due '}
  record(names[outcome] .. ARGV[7] .. ' ' .. ARGV[8])
  finish()
end
return answer(outcome .. ' ' .. ARGV[7] .. '\t' .. text_of(order))
