-- Leases a node a block of a sale's admissions: so many users it may have on their way to a decision. All blocks that
-- have not run out are together at most the sale's ratio times the units that are left. A block replaces the one that
-- the node had; one that is not renewed runs out, so that a node that is gone keeps nobody out. Nothing is decided by
-- it, and a block that is lost costs nothing: a node may always have one user on the way.
-- KEYS as in prelude.lua, KEYS[14] admissions
-- ARGV[1..6] as in prelude.lua, ARGV[7] the node, ARGV[8] users that are on their way there or wait, ARGV[9] the ratio
-- in percent, ARGV[10] milliseconds that a block lasts
-- Replies: {"ok", block " " units left " " grants}, {"unknown", ""}
-- luacheck: read globals int
local c = redis.call('HMGET', KEYS[5], 'kind', 'remaining', 'grants')
if c[1] ~= 'sale' then
  return {'unknown', ''}
end
-- Redis' own clock, whatever the clock that windows are judged by.
local time = redis.call('TIME')
local at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local others = 0
local blocks = redis.call('HGETALL', KEYS[14])
for i = 1, #blocks, 2 do
  local users, last = string.match(blocks[i + 1], '^(%d+) (%d+)$')
  if tonumber(last) <= at then
    redis.call('HDEL', KEYS[14], blocks[i])
  elseif blocks[i] ~= ARGV[7] then
    others = others + tonumber(users)
  end
end
-- A share of what is free beyond what is needed saves calls where there is plenty.
local free = math.max(0, math.ceil(tonumber(c[2]) * tonumber(ARGV[9]) / 100) - others)
local block = math.min(free, math.max(tonumber(ARGV[8]), math.floor(free / 8)))
if block > 0 then
  redis.call('HSET', KEYS[14], ARGV[7], int(block) .. ' ' .. int(at + tonumber(ARGV[10])))
  redis.call('PEXPIRE', KEYS[14], 2 * tonumber(ARGV[10]))
else
  redis.call('HDEL', KEYS[14], ARGV[7])
end
return {'ok', int(block) .. ' ' .. c[2] .. ' ' .. c[3]}
