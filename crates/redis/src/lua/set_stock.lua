-- Changes the stock of a sale. For a spread sale, only the first shard changes: it has the stock of all shards,
-- receives added units and gives up removed ones. The same stock changes nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the stock, ARGV[8] the largest stock, ARGV[9] the largest price of the whole
-- stock, ARGV[10] the stock that the sale must have, or empty, ARGV[11] the id of its key, or empty
-- Replies: {"ok", tally}, {"unknown", ""}, {"refused", phase}, {"rules", stock, limit or price: the broken rule};
-- {"short", "UNITS STOCK"}, the number of units that must arrive here first, and the present stock;
-- {"changed", ""} if the sale has another stock
-- luacheck: read globals c now int answer phase_at put record tally finish
-- luacheck: globals gate
if c.kind ~= 'sale' then
  return {'unknown', ''}
end
local wanted = tonumber(ARGV[7])
local stock = tonumber(redis.call('HGET', KEYS[5], 'stock'))
if c.parts == 1 then
  stock = c.supply + c.withheld
end
if (tonumber(ARGV[10]) or stock) ~= stock then
  return {'changed', ''}
end
if wanted ~= stock then
  local phase = phase_at(now)
  if phase == 'e' or phase == 'c' then
    return {'refused', phase}
  end
  if wanted < 1 or wanted > tonumber(ARGV[8]) then
    return {'rules', 'stock'}
  elseif c.limit > wanted then
    return {'rules', 'limit'}
  elseif c.price * wanted > tonumber(ARGV[9]) then
    return {'rules', 'price'}
  end
  local units = wanted - stock
  if c.remaining + units < 0 then
    return {'short', int(-units) .. ' ' .. int(stock)}
  end
  put('remaining', c.remaining + units)
  put('supply', c.supply + units)
  if c.parts > 1 then
    put('stock', wanted)
  end
  record('stock_changed ' .. int(units))
  gate = true
end
if ARGV[11] ~= '' then
  record('change_made ' .. ARGV[11])
end
finish()
return answer(tally())
