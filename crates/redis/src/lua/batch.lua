-- Functions that red packets and sales share: users of a batch, refusal by phase, and writing of rows.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: nothing of its own
-- luacheck: read globals now
-- luacheck: ignore 211

-- Users of `n` claims in ARGV, and the index before the first one. The claims start after index `at`. Each has 1 value
-- (user) or 3 values (user, quantity, key).
local function users_of(at, n, values)
  if values == 1 then
    return ARGV, at
  end
  local users = {}
  for i = 1, n do
    users[i] = ARGV[at - 2 + 3 * i]
  end
  return users, 0
end

local function refusal_of(phase, starts, ends)
  if phase == 'p' then
    return 'P'
  elseif phase ~= 's' or now >= ends then
    return 'E'
  elseif now < starts then
    return 'N'
  end
end

-- Redis reuses the argument buffer of calls from Lua if they have at most 32 arguments, so short calls are cheaper.
local function set_fields(key, fields, size)
  for j = 1, size, 30 do
    redis.call('HSET', key, unpack(fields, j, math.min(j + 29, size)))
  end
end
