-- Common start of each script that decides or reads something, after the fence: the kept reply, and the clock. Sets
-- `now`.
-- A call that is repeated because its answer was lost gets the kept answer. The number of a connection's last call
-- outlives the reply: it is removed an hour after its node has gone. So nothing is decided twice, even if a packet is
-- delayed for long or the server's clock changes.
-- KEYS[1] partition, KEYS[2] log, KEYS[3] call, KEYS[4] agenda, KEYS[5] campaign, KEYS[6] shares, KEYS[7] sums,
-- KEYS[8] users, KEYS[9] orders, KEYS[10] payments, KEYS[11] transfers,
-- KEYS[12] queue, KEYS[13] keys, KEYS[14] admissions, KEYS[15] closed, KEYS[16] plan, KEYS[17] entered: the same for
-- every script, see keys.rs; each script receives those up to the last one that it names
-- ARGV[1..2] as in fence.lua, ARGV[3] milliseconds, or empty for Redis' clock,
-- ARGV[4] the number of this call on its connection, ARGV[5] "1" for a repeated call, ARGV[6] the campaign
-- Replies: the kept {"ok", text, head}; {"lost", ""} if the call was carried out and its reply has expired; {"damaged",
-- key} if a key of the campaign is gone, is of another type or does not match the others: nothing was done, and the
-- campaign must be rebuilt. A third part of a reply is the last entry of the log; the caller relies on it
-- luacheck: globals seq
-- luacheck: read globals partition
-- luacheck: ignore 211 311
local call = string.match(KEYS[3], '}:(call:.+)$')
local carried_out = tonumber(string.match(redis.call('HGET', KEYS[1], call) or '', '^%d+'))
if carried_out and carried_out >= tonumber(ARGV[4]) then
  -- A repeated call; or an old packet that arrives after its sender stopped waiting, so no caller reads the answer.
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

-- Whole numbers with all digits: Lua's own conversion keeps 14 digits. `%d` formats a 64-bit integer much faster than a
-- floating-point number is printed.
local format = string.format
local function int(value)
  return format('%d', value)
end

-- Appends `count` entries as one record and, if the transport is a list, also to the queue. The record's id is the
-- sequence number of the last entry. The entries are about the call's campaign, or about another one of the partition.
local function append(count, at, field, body, campaign)
  local last = seq + count
  campaign = campaign or ARGV[6]
  redis.call('XADD', KEYS[2], int(last) .. '-0', 'c', campaign, 't', int(at), field, body)
  if partition[4] then
    local head = int(last) .. ' ' .. campaign .. ' ' .. int(at) .. ' ' .. field .. ' ' .. partition[1]
    -- A queue of another type must not end a script here: the reader takes what the queue lacks from the log.
    redis.pcall('RPUSH', KEYS[12], head .. '\n' .. body)
  end
  redis.call('HSET', KEYS[1], 'seq', int(last))
  seq = last -- only now: a script that continues after an error must not report an entry that the log lacks
end

-- The reply to a call that wrote something, or that is repeated. It is kept, so that the call is not carried out later.
local function answer(text)
  redis.call('SET', KEYS[3], text, 'PX', 60000)
  redis.call('HSET', KEYS[1], call, ARGV[4] .. ' ' .. int(now))
  return {'ok', text, int(seq)}
end

-- Records that a key of a campaign is gone, is of another type or does not match the others. The campaign is the
-- call's, or another one of the partition. The caller has it rebuilt. A replica only replies and records nothing.
local function damaged(key, campaign)
  local field = 'damaged:' .. (campaign or ARGV[6])
  if string.sub(ARGV[1], 1, 6) ~= 'epoch ' and not redis.call('HGET', KEYS[1], field) then
    redis.call('HSET', KEYS[1], field, '?')
  end
  return {'damaged', key}
end

-- Whether the agenda has a campaign, as it has each open one. Uses ZADD, because access lists may lack ZSCORE.
local function has_due(campaign)
  return redis.call('ZADD', KEYS[4], 'XX', 'INCR', '0', campaign)
end

-- Number of fields or elements of a key; -1 if it is of another type.
local function length(command, key)
  local count = redis.pcall(command, key)
  return type(count) == 'number' and count or -1
end

-- Invalidates a campaign in the gates of all nodes. They also poll, so a Redis user without the right to publish must
-- not make a script fail half-way.
local function invalidate(campaign, key)
  redis.pcall('PUBLISH', KEYS[4] .. ':news', campaign or ARGV[6])
  return redis.call('HINCRBY', key or KEYS[5], 'version', 1)
end
