-- Claims of one red packet. All checks come first, in the order of precedence of the outcomes. Then shares are taken,
-- users recorded and the log written, each with few commands for all claims.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: nothing of its own
-- luacheck: read globals seq now int append invalidate lazy_amount digits users_of refusal_of set_fields length
-- luacheck: ignore 211 231

-- Whether a claim of this call has changed something.
local written = false

-- Decides `n` claims, which are in ARGV as in batch.lua. Input is the packet's id and its keys: campaign, shares and
-- users. Returns the text of the outcomes, see reply.rs.
-- Returns nil if Redis does not have the packet; nil and the name of a key if that key does not match the others, see
-- whole.lua.
local function claim_shares(id, campaign, list, holders, at, n, values)
  local c = redis.pcall('HMGET', campaign, 'kind', 'phase', 'starts', 'ends', 'remaining', 'granted', 'last', 'version',
    'rule')
  if c.err then
    return nil, 'campaign'
  elseif c[1] ~= 'red_packet' then
    return nil
  elseif length('HLEN', holders) ~= tonumber(c[6]) then
    return nil, 'users'
  elseif c[9] == 'shares' and c[2] ~= 'c' and length('LLEN', list) ~= tonumber(c[5]) then
    return nil, 'shares'
  end
  local users, first = users_of(at, n, values)
  local starts, left = tonumber(c[3]), tonumber(c[5])
  local refusal = refusal_of(c[2], starts, tonumber(c[4]))
  local held = redis.call('HMGET', holders, unpack(users, first + 1, first + n))

  -- Receivers of shares: takers[j] is the claim that takes the j-th share, and got[user] is j.
  local out, got, takers, taken = {}, {}, {}, 0
  for i = 1, n do
    local user, row = users[first + i], held[i]
    if row then
      out[i] = 'A' .. row
    elseif got[user] then
      out[i] = got[user]
    elseif refusal then
      out[i] = refusal
    elseif values == 3 and ARGV[at - 1 + 3 * i] ~= '1' then
      out[i] = 'L0'
    elseif taken >= left then
      out[i] = 'S0'
    else
      taken = taken + 1
      got[user] = taken
      takers[taken] = i
    end
  end

  local version = c[8]
  local body
  if taken > 0 then
    local granted_at, latest = now, tonumber(c[7])
    if latest > now and latest - now <= 60000 then -- JUMP_MS_MAX: a time further ahead comes from a clock glitch
      granted_at = latest
    end
    local tail = '\t' .. int(granted_at - starts)
    local shares, money = {}, nil
    -- Redis scans the whole hash for an absent field, so these fields are read for lazy packets only.
    local lazy = c[9] == 'lazy' and redis.call('HMGET', campaign, 'money', 'seed', 'min', 'grants', 'withheld')
    -- Redis refuses HSET without free memory, but not LPOP. So HSET comes first, and a refusal leaves nothing half
    -- done.
    redis.call('HSET', campaign, 'remaining', left - taken, 'granted', tonumber(c[6]) + taken, 'last', int(granted_at))
    written = true
    if lazy then
      money = tonumber(lazy[1])
      -- After a repair, the last number may exceed the number of grants. Withheld units count as remaining, so each
      -- amount still follows from the seed and the earlier grants.
      local last, to_come = math.max(tonumber(c[6]), tonumber(lazy[4])), left + tonumber(lazy[5] or 0)
      redis.call('HSET', campaign, 'grants', int(last + taken))
      for j = 1, taken do
        local number = last + j
        local amount = lazy_amount(lazy[2], number, money, to_come - j + 1, tonumber(lazy[3]))
        money = money - amount
        shares[j] = digits(number) .. int(amount)
      end
    else
      shares = redis.call('LPOP', list, taken)
    end
    local rows = {}
    for j = 1, taken do
      local i = takers[j]
      local row = shares[j] .. tail
      if values == 3 and ARGV[at + 3 * i] ~= '' then
        row = row .. '\t' .. ARGV[at + 3 * i]
      end
      rows[2 * j - 1] = users[first + i]
      rows[2 * j] = row
    end
    set_fields(holders, rows, 2 * taken)
    body = table.concat(rows, '\n')
    append(taken, granted_at, 'g', body, id)
    left = left - taken
    if money then
      redis.call('HSET', campaign, 'money', int(money))
    end
    -- Also at the first grant. Gates that know of no grant would otherwise answer its user by a clock that was set
    -- back.
    if left == 0 or tonumber(c[6]) == 0 then
      version = invalidate(id, campaign)
    end
    for j = 1, taken do
      out[takers[j]] = rows[2 * j]
    end
  end

  local head = int(now) .. ' ' .. int(seq) .. ' ' .. left .. ' ' .. version
  if taken == n then
    return head .. ' *\n' .. body
  end
  for i = 1, n do
    if type(out[i]) == 'number' then
      out[i] = 'A' .. out[takers[out[i]]]
    end
  end
  return head .. ' =\n' .. table.concat(out, '\n')
end
