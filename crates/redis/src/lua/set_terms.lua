-- Changes window, limit, price or admission of a sale, and its stock if that is given, in its first shard. The same
-- values change nothing. The other shards of a spread sale follow (follow_terms.lua). Until all have followed, `behind`
-- is 1, and a tick copies the terms to them.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7..10] start, end, limit and price, each empty if unchanged; the start "now"
-- starts a scheduled sale at this moment and leaves a live one, ARGV[11] the largest price of the whole
-- stock, ARGV[12] the latest instant, ARGV[13] the revision that all shards have followed, or empty,
-- ARGV[14] the admission in percent, empty if unchanged, ARGV[15..19] start, end, limit, price and admission that the
-- sale must have, each empty for any value, ARGV[20] the id of its key, or empty, ARGV[21] the stock, or empty,
-- ARGV[22] the largest stock
-- Replies: {"ok", tally}, {"unknown", ""}, {"refused", phase}, {"rules", opened, past, window, stock,
-- limit or price: the broken rule}, {"changed", ""} if it has other terms, {"short", "UNITS STOCK"} as in set_stock.lua
-- luacheck: read globals seq c now int answer phase_at put record reschedule tally finish terms_text
-- luacheck: globals gate
if c.kind ~= 'sale' then
  return {'unknown', ''}
end
for i, present in ipairs({c.opens, c.ends, c.limit, c.price, c.admit}) do
  if (tonumber(ARGV[14 + i]) or present) ~= present then
    return {'changed', ''}
  end
end
local opens, ends = tonumber(ARGV[7]) or c.opens, tonumber(ARGV[8]) or c.ends
if ARGV[7] == 'now' and phase_at(now) ~= 'l' then
  local phase = phase_at(now)
  if phase ~= 's' then
    return {'refused', phase}
  end
  opens = now
end
local limit, price = tonumber(ARGV[9]) or c.limit, tonumber(ARGV[10]) or c.price
local admit = tonumber(ARGV[14]) or c.admit
local stock = tonumber(redis.call('HGET', KEYS[5], 'stock'))
if c.parts == 1 then
  stock = c.supply + c.withheld
end
local wanted = tonumber(ARGV[21]) or stock
local changes_terms = opens ~= c.opens or ends ~= c.ends or limit ~= c.limit or price ~= c.price
    or admit ~= c.admit
if changes_terms or wanted ~= stock then
  local phase = phase_at(now)
  if phase == 'e' or phase == 'c' then
    return {'refused', phase}
  end
  local most = tonumber(ARGV[11])
  if wanted < 1 or wanted > tonumber(ARGV[22]) then
    return {'rules', 'stock'}
  elseif opens ~= c.opens and phase ~= 's' and (c.grants > 0 or c.parts > 1) then
    -- The other shards of a spread sale may have granted.
    return {'rules', 'opened'}
  elseif opens ~= c.opens and opens < now or ends <= now then
    return {'rules', 'past'}
  elseif opens < 0 or opens >= ends or ends > tonumber(ARGV[12]) then
    return {'rules', 'window'}
  elseif limit < 1 or limit > wanted then
    return {'rules', 'limit'}
  elseif price < 0 or price * math.max(wanted, stock) > most or c.price * wanted > most then
    return {'rules', 'price'}
  elseif c.remaining + wanted - stock < 0 then
    return {'short', int(stock - wanted) .. ' ' .. int(stock)}
  end
  gate = true
end
local function change_stock()
  put('remaining', c.remaining + wanted - stock)
  put('supply', c.supply + wanted - stock)
  if c.parts > 1 then
    put('stock', wanted)
  end
  record('stock_changed ' .. int(wanted - stock))
end
-- The limit is at most the stock after each entry.
if wanted > stock then
  change_stock()
end
if changes_terms then
  -- Until the change is settled, reconciliation compares the ledger's row with the previous terms.
  put('before', terms_text())
  put('opens', opens)
  put('ends', ends)
  put('limit', limit)
  put('price', price)
  put('admit', admit)
  put('terms', seq + (wanted > stock and 2 or 1))
  if c.parts > 1 then
    put('behind', 1)
  end
  record('terms_changed ' .. terms_text())
elseif c.behind == 1 and tonumber(ARGV[13]) == c.terms then
  put('behind', 0)
end
if wanted < stock then
  change_stock()
end
if ARGV[20] ~= '' then
  record('change_made ' .. ARGV[20])
end
reschedule()
finish()
return answer(tally())
