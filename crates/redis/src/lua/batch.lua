-- What the decisions of packets and sales have in common: the batch of claims, why none may be granted, and rows.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] values a claim: 1 (user) or 3 (user, quantity, key), ARGV[8..] the claims
-- Replies: none of its own
-- luacheck: read globals now
-- luacheck: ignore 211 231 311 331
local step = tonumber(ARGV[7])
local n = (#ARGV - 7) / step
local users, first = ARGV, 7
if step == 3 then
  users, first = {}, 0
  for i = 1, n do
    users[i] = ARGV[5 + 3 * i]
  end
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
