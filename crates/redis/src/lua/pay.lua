-- Records a payment for an order. A payment within the hold makes the order paid. If the hold ended before the payment,
-- the order expires first. An expired order takes its units again if they are left; otherwise a refund is due.
-- The same payment is answered as before. Money that is neither the price nor accepted in its place pays nothing: a
-- refund is due, and the order does not change.
-- A paid order that cost nothing accepts no payment.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the order's number, ARGV[8] the payment, ARGV[9] when it was made; empty: now,
-- ARGV[10] maximum number of payments of an order with a refund due, ARGV[11] "1" if a running downtime may count,
-- ARGV[12] empty for the price, else a space, minor units, a space and the currency, ARGV[13] "1" for the price and for
-- money that is accepted in its place, ARGV[14] cancelled units of the order when its price was compared
-- Replies: {"ok", (p|r|d|f, f if nothing needs payment) [" " minor " " currency] " " order}, {"unknown", ""},
-- {"refused", "payments"}, {"refused", "units"} if other units of the order are cancelled now, or if its price does not
-- name its money
-- luacheck: read globals c now int answer phase_at order_of text_of put_order buyer_of move step_past record finish
-- luacheck: read globals expect_downtimes held_until put is_paid_for_nothing
local order = c.kind == 'sale' and order_of(tonumber(ARGV[7]))
if not order then
  return {'unknown', ''}
end
local pays = ARGV[13] == '1'
local field = ARGV[7] .. '\t' .. ARGV[8]
local outcome = redis.call('HGET', KEYS[10], field)
if not outcome and ARGV[12] == '' and is_paid_for_nothing(order) then
  outcome = 'f'
elseif not outcome then
  if order.cancelled ~= tonumber(ARGV[14]) or order.cancelled > 0 and ARGV[12] == '' then
    return {'refused', 'units'}
  end
  outcome = 'd'
  local was_held = pays and order.state == 'h'
  expect_downtimes(ARGV[11] == '1')
  -- The time of a payment is at most the time of its report.
  local expires = was_held
    and math.min(tonumber(ARGV[9]) or now, now) >= held_until(c.starts + order.offset, c.hold + order.extension)
  if was_held and not expires then
    outcome = 'p'
  elseif expires or pays and order.state == 'x' then
    -- If the order expires now, its units return to the stock before the payment takes them.
    local own = expires and order.quantity or 0
    local phase = phase_at(now)
    local held = buyer_of(redis.call('HGET', KEYS[8], order.user)).held - own
    if (phase == 'l' or phase == 'p') and order.quantity <= c.remaining + own
      and order.quantity <= c.limit - held then
      outcome = 'r'
    end
  end
  if outcome == 'd' and order.refunds >= tonumber(ARGV[10]) then
    return {'refused', 'payments'}
  end
  if expires then
    order.state = 'x'
    move(order, -1)
    record('expired ' .. ARGV[7])
  end
  if outcome == 'r' then
    move(order, 1)
  end
  if outcome == 'd' then
    order.refunds = order.refunds + 1
  else
    order.state = 'p'
  end
  put_order(order)
  if was_held then
    step_past(order)
  end
  redis.call('HSET', KEYS[10], field, outcome .. ARGV[12])
  put('paid', redis.call('HLEN', KEYS[10]))
  local names = {p = 'paid ', r = 'reinstated ', d = 'refund_due '}
  record(names[outcome] .. ARGV[7] .. ' ' .. ARGV[8] .. ARGV[12])
  outcome = outcome .. ARGV[12]
  finish()
end
return answer(outcome .. ' ' .. ARGV[7] .. '\t' .. text_of(order))
