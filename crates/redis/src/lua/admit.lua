-- Leases admission permits of a sale to a node, as one block. The unexpired blocks together have at most as many
-- permits as the sale's ratio times its remaining units.
-- A new block replaces the node's previous one. A block that is not renewed expires, so a dead node locks out no user.
-- A node never gets permits that another node has, or that belong to another node's equal share.
-- A block decides no claim, and its loss does no harm: see admission.rs.
-- KEYS as in prelude.lua, KEYS[14] admissions
-- ARGV[1..6] as in prelude.lua, ARGV[7] the node, ARGV[8] users in flight or waiting on the node, ARGV[9] milliseconds
-- that a block lasts
-- Replies: {"ok", block " " units left " " grants " " ratio in percent, 0 for no bound}, {"unknown", ""}
-- luacheck: read globals int
local c = redis.call('HMGET', KEYS[5], 'kind', 'remaining', 'grants', 'admit')
if c[1] ~= 'sale' then
  return {'unknown', ''}
end
-- Redis' own clock, independent of the clock that judges windows.
local time = redis.call('TIME')
local at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local wanted, lasts = tonumber(ARGV[8]), tonumber(ARGV[9])
local blocks, others = redis.pcall('HGETALL', KEYS[14]), {}
if blocks.err then
  -- The loss of blocks does no harm.
  redis.call('UNLINK', KEYS[14])
  blocks = {}
end
for i = 1, #blocks, 2 do
  local users, last, asked = string.match(blocks[i + 1], '^(%d+) (%d+) (%d+)$')
  last = tonumber(last or 0)
  -- A block with more time left than any block lasts was written before the clock was set back.
  if last <= at or last > at + lasts then
    redis.call('HDEL', KEYS[14], blocks[i])
  elseif blocks[i] ~= ARGV[7] then
    others[#others + 1] = {tonumber(users), tonumber(asked)}
  end
end
local USERS_MAX = 2147483647
local ratio = tonumber(c[4])
local free = ratio == 0 and USERS_MAX or math.min(math.ceil(tonumber(c[2]) * ratio / 100), USERS_MAX)
local equal = math.floor(free / (#others + 1))
for _, other in ipairs(others) do
  free = free - math.max(other[1], math.min(other[2], equal))
end
free = math.max(0, free)
-- If many permits are free, a larger block saves calls.
local block = math.min(free, math.max(wanted, math.floor(free / 8)))
-- A node that gets no permit still records its demand.
redis.call('HSET', KEYS[14], ARGV[7], int(block) .. ' ' .. int(at + lasts) .. ' ' .. int(wanted))
redis.call('PEXPIRE', KEYS[14], 2 * lasts)
return {'ok', int(block) .. ' ' .. c[2] .. ' ' .. c[3] .. ' ' .. int(ratio)}
