-- Checks that the keys of a campaign match: each is of its type and has as many rows as the campaign's hash says.
-- Buyers, payments and keys may have more rows, because a repair may have stopped before it wrote their counts. A count
-- is absent until it is first written. Rows of buyers and orders change in place, and a transfer follows another: an
-- older value with as many rows lacks the row that was written last.
-- KEYS nothing of its own
-- ARGV nothing of its own
-- Replies: nothing of its own
-- luacheck: read globals is_older skipped_of
-- luacheck: ignore 211

-- Name of a key that is gone, is of another type or does not match the others; nil if there is none, or no campaign.
-- A repair forgets the rows that were written last before it writes others, because it may stop and begin again.
local function broken_of(campaign, shares, sums, users, orders, payments, transfers, keys)
  local c = redis.pcall('HMGET', campaign, 'kind', 'phase', 'rule', 'remaining', 'granted', 'grants', 'buyers',
    'paid', 'moving', 'keyed', 'newest_buyer', 'newest_order', 'newest_transfer')
  if c.err then
    return 'campaign'
  elseif not c[1] then
    return nil
  end
  local function differs(count, command, key)
    local have = redis.pcall(command, key)
    return type(have) ~= 'number' or count and tonumber(count) ~= have
  end
  local function lacks_orders()
    return differs(c[6], 'HLEN', orders) and differs(tonumber(c[6] or 0) - skipped_of(campaign), 'HLEN', orders)
  end
  local function lacks(count, key)
    local have = redis.pcall('HLEN', key)
    return type(have) ~= 'number' or count and have < tonumber(count)
  end
  -- The journal must have the transfer that began last, unless that has ended.
  local function lacks_newest_transfer()
    local to, number = string.match(c[13], '^(%d+) (%d+)$')
    local standing = redis.call('HGET', transfers, to)
    return not standing or string.match(standing, '^%d+') ~= number
  end
  if differs(c[9], 'HLEN', transfers) or c[13] and lacks_newest_transfer() then
    return 'transfers'
  elseif c[1] == 'sale' then
    return lacks(c[7], users) and 'users' or lacks_orders() and 'orders'
      or lacks(c[8], payments) and 'payments' or lacks(c[10], keys) and 'keys'
      or c[11] and is_older(users, c[11]) and 'users' or c[12] and is_older(orders, c[12]) and 'orders' or nil
  elseif differs(c[5], 'HLEN', users) then
    return 'users'
  elseif c[3] == 'shares' and c[2] ~= 'c' then
    local thousands = math.floor(tonumber(c[4]) / 1000)
    return differs(c[4], 'LLEN', shares) and 'shares' or differs(nil, 'HLEN', sums) and 'sums'
      or thousands > 0 and not redis.call('HGET', sums, string.format('%d', thousands)) and 'sums' or nil
  end
end
