-- What every script that decides or reads something begins with, behind the fence: the reply that was kept, and the
-- clock. Sets `now`. A call that is sent again because its answer was lost gets the answer that was kept. The number of
-- a connection's last call does not expire, so that nothing is decided twice, however long a packet was delayed and
-- whatever the server's clock says.
-- KEYS[1] partition, KEYS[2] log, KEYS[3] call, KEYS[4] agenda, KEYS[5] campaign, KEYS[6] shares, KEYS[7] sums,
-- KEYS[8] users, KEYS[9] orders, KEYS[10] payments, KEYS[11] transfers,
-- KEYS[12] queue, KEYS[13] keys, KEYS[14] admissions, KEYS[15] closed, KEYS[16] plan, KEYS[17] entered: the same for
-- every script, see keys.rs; each is given those up to the last one that it names
-- ARGV[1..2] as in fence.lua, ARGV[3] milliseconds, or empty for Redis' clock,
-- ARGV[4] the number of this call on its connection, ARGV[5] "1" when it is sent again, ARGV[6] the campaign
-- Replies: the kept {"ok", text, head}; {"lost", ""} where the call was carried out and its reply has expired;
-- {"damaged", key} where a key of the campaign is gone, is of another type or does not belong to the others: nothing
-- was done, and the campaign must be rebuilt. Where a reply has a third part, it is the last entry of the log, on which
-- the caller then relies
-- luacheck: globals seq
-- luacheck: read globals partition
-- luacheck: ignore 211 311
local call = string.match(KEYS[3], '}:(call:.+)$')
local carried_out = tonumber(string.match(redis.call('HGET', KEYS[1], call) or '', '^%d+'))
if carried_out and carried_out >= tonumber(ARGV[4]) then
  -- Sent again; or an old packet that was delayed for longer than its sender waited, whose answer nobody reads.
  local kept = redis.call('GET', KEYS[3])
  if not kept then
    return {'lost', ''}
  end
  return {'ok', kept, string.format('%d', seq)}
end
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Whole numbers in full: Lua's own conversion keeps 14 digits. `%d` takes a 64-bit integer, and a fraction of the time
-- that printing a floating-point number does.
local format = string.format
local function int(value)
  return format('%d', value)
end

-- Appends `count` entries as one record, whose id is the sequence number of the last; and to the queue, where the
-- transport is a list. They are about the call's campaign, or about another one of the partition.
local function append(count, at, field, body, campaign)
  local last = seq + count
  campaign = campaign or ARGV[6]
  redis.call('XADD', KEYS[2], int(last) .. '-0', 'c', campaign, 't', int(at), field, body)
  if partition[4] then
    local head = int(last) .. ' ' .. campaign .. ' ' .. int(at) .. ' ' .. field .. ' ' .. partition[1]
    redis.call('RPUSH', KEYS[12], head .. '\n' .. body)
  end
  redis.call('HSET', KEYS[1], 'seq', int(last))
  seq = last -- only now: what a script replies that goes on behind an error is in the log
end

-- The reply to a call that wrote something, or that was sent again. It is kept, so that the call is not carried out
-- later.
local function answer(text)
  redis.call('SET', KEYS[3], text, 'PX', 60000)
  redis.call('HSET', KEYS[1], call, ARGV[4] .. ' ' .. int(now))
  return {'ok', text, int(seq)}
end

-- Notes that a key of the call's campaign, or of another one of the partition, is gone, is of another type or does not
-- belong to the others. Whoever called has the campaign rebuilt. A replica only says so.
local function damaged(key, campaign)
  local field = 'damaged:' .. (campaign or ARGV[6])
  if string.sub(ARGV[1], 1, 6) ~= 'epoch ' and not redis.call('HGET', KEYS[1], field) then
    redis.call('HSET', KEYS[1], field, '?')
  end
  return {'damaged', key}
end

-- Whether something of a campaign is due, as of each that is open. By ZADD, because access lists may lack ZSCORE.
local function has_due(campaign)
  return redis.call('ZADD', KEYS[4], 'XX', 'INCR', '0', campaign)
end

-- How many fields or elements a key has; -1 if it is of another type.
local function length(command, key)
  local count = redis.pcall(command, key)
  return type(count) == 'number' and count or -1
end

-- Invalidates what the gates of all nodes know of the call's campaign, or of another one. They poll as well, so a Redis
-- user without the right to publish must not make a script fail half-way.
local function invalidate(campaign, key)
  redis.pcall('PUBLISH', KEYS[4] .. ':news', campaign or ARGV[6])
  return redis.call('HINCRBY', key or KEYS[5], 'version', 1)
end
