-- Trims settled records of the log: records settled long enough ago, and the oldest ones if the log exceeds its
-- bytes. Keeps records that another consumer group has not acknowledged. If Redis has no free memory, all settled
-- records are trimmed. A record's id is the position of its last entry.
-- A mark records what was settled when: its beginning in milliseconds, its end, and the last entry settled by then.
-- KEYS[1] log, KEYS[2] released: marks, the oldest first, KEYS[3] partition
-- ARGV[1] the last settled entry; ARGV[2] our consumer group; ARGV[3] retention of settled records in milliseconds;
-- ARGV[4] maximum bytes of the log during retention
-- Replies: the number of trimmed records
-- Approximate number of marks; one mark spans this fraction of the retention.
local MARKS = 64
local settled, retain = tonumber(ARGV[1]), tonumber(ARGV[3])

local function int(value)
  return string.format('%.0f', value)
end

local function place(id)
  return tonumber(string.match(id, '^%d+'))
end

-- Trims the records up to an entry, and records the highest position that the ledger ever had: an entry after it that
-- the log lacks was deleted by an operator.
-- At `maxmemory`, Redis refuses a write that needs memory only until the script has made another write. So XTRIM always
-- comes first, even if it trims nothing, and the position is never refused.
local function forget(upto)
  local count = redis.call('XTRIM', KEYS[1], 'MINID', int(upto + 1) .. '-0')
  local p = redis.call('HMGET', KEYS[3], 'ledger_position', 'seq')
  local known, position = tonumber(p[1]) or 0, math.min(settled, tonumber(p[2]) or 0)
  if position > known then
    redis.call('HSET', KEYS[3], 'ledger_position', int(position))
  end
  return count
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return forget(0)
end

local function mark(index)
  local words = {}
  for word in string.gmatch(redis.call('LINDEX', KEYS[2], index) or '', '%d+') do
    words[#words + 1] = tonumber(word)
  end
  return words[1], words[2], words[3]
end

local function push(since, now)
  local text = int(since) .. ' ' .. int(now) .. ' ' .. int(settled)
  return type(redis.pcall('RPUSH', KEYS[2], text)) == 'number'
end

-- Records that everything up to `settled` is settled by now. False if Redis has no free memory; only the first write of
-- a script reports this.
local function note(now)
  if not push(now, now) then
    return false
  end
  local since, _, upto = mark(-2)
  while upto and upto > settled do
    -- The ledger was set back, so this is no longer settled.
    redis.call('LTRIM', KEYS[2], 0, -3)
    push(now, now)
    since, _, upto = mark(-2)
  end
  if upto == settled then
    redis.call('LTRIM', KEYS[2], 0, -2)
  elseif since and now - since < retain / MARKS then
    redis.call('LTRIM', KEYS[2], 0, -3)
    push(since, now)
  end
  return true
end

-- Position up to which the log exceeds its limit, if all entries have the same size.
local function surplus()
  local bytes, bytes_max = redis.call('MEMORY', 'USAGE', KEYS[1]) or 0, tonumber(ARGV[4])
  local oldest = bytes > bytes_max and redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not oldest then
    return 0
  end
  local first, last = place(oldest[1]), tonumber(redis.call('HGET', KEYS[3], 'seq') or 0)
  return first + math.ceil((last - first) * (1 - bytes_max / bytes))
end

local upto = settled
if retain > 0 then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  if note(now) then
    upto = surplus()
    local _, at, last = mark(0)
    while at and now - at >= retain do
      upto = math.max(upto, last)
      redis.call('LPOP', KEYS[2])
      _, at, last = mark(0)
    end
    upto = math.min(upto, settled)
  end
end
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for n = 1, #fields, 2 do
    group[fields[n]] = fields[n + 1]
  end
  if group['name'] ~= ARGV[2] then
    upto = math.min(upto, place(group['last-delivered-id']))
    if group['pending'] > 0 then
      local oldest = redis.call('XPENDING', KEYS[1], group['name'])[2]
      upto = math.min(upto, place(oldest) - 1)
    end
  end
end
return forget(upto)
