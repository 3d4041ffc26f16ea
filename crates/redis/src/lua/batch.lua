-- What the decisions of packets and sales have in common: who asks, why none may be granted, and rows.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: none of its own
-- luacheck: read globals now
-- luacheck: ignore 211

-- The users of `n` claims in ARGV, and the place before the first. The claims begin behind place `at`, each with so
-- many values: 1 (user) or 3 (user, quantity, key).
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

-- Redis keeps the arguments of calls from Lua for the next one if they are at most 32: short calls are cheaper.
local function set_fields(key, fields, size)
  for j = 1, size, 30 do
    redis.call('HSET', key, unpack(fields, j, math.min(j + 29, size)))
  end
end
