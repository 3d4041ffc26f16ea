-- Evicts a closed campaign or one shard of it, once nothing can change it automatically and the ledger has all of its
-- entries. Also removes the rows of an unfinished reload.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the entry up to which the ledger is settled, ARGV[8] when the campaign was
-- created,
-- ARGV[9] units granted and returned, and minor units refunded, in the ledger; empty if its figures include other
-- shards, ARGV[10] number of orders of a sale's shard in the ledger, empty for a packet, ARGV[11] when to check it
-- again if it stays, in milliseconds; a day later if the ledger differs
-- Replies: {"ok", ""}, {"stays", the reason}
-- luacheck: read globals seq int schedule skipped_of
local c = redis.call('HMGET', KEYS[5], 'phase', 'kind', 'first', 'grants', 'behind', 'frozen', 'touched', 'granted',
  'returned', 'refunded', 'extended')
local phase, settled = c[1], tonumber(ARGV[7])

local function differs_in_orders()
  return ARGV[10] ~= '' and ARGV[10] ~= c[4] and tonumber(ARGV[10]) ~= tonumber(c[4]) - skipped_of(KEYS[5])
end

local function reason()
  if c[2] == 'sale' and (tonumber(c[3]) <= tonumber(c[4]) or c[11] and c[11] ~= '') then
    return 'held'
  elseif c[5] == '1' or redis.call('HLEN', KEYS[11]) > 0 then
    return 'moving'
  elseif not c[7] then
    -- A repair closed it, and appends its entries later.
    redis.call('HSET', KEYS[5], 'touched', int(seq))
    return 'unsettled'
  elseif tonumber(c[7]) > settled then
    return 'unsettled'
  elseif ARGV[9] ~= '' and ARGV[9] ~= c[8] .. ' ' .. c[9] .. ' ' .. c[10] or differs_in_orders() then
    return 'differs'
  elseif c[6] then
    -- Another shard is being repaired, and its repairer reads this one.
    local time = redis.call('TIME')
    local millis = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    return millis < tonumber(string.match(c[6], '^%d+')) and 'frozen'
  end
end

if phase and phase ~= 'c' then
  -- A failover has undone the close. The next close adds the campaign here again.
  redis.call('ZREM', KEYS[15], ARGV[6])
  return {'stays', 'open'}
end
local why = phase and reason()
if why then
  redis.call('ZADD', KEYS[15], int(ARGV[11] + (why == 'differs' and 86400000 or 0)), ARGV[6])
  return {'stays', why}
end
if phase then
  -- `left` advances to the campaign's own last entry only: `settled` would reject reads of the ledger that are in
  -- progress for other campaigns. The ledger has that entry, so a ledger that lacks it later was set back.
  local left = redis.call('HMGET', KEYS[1], 'left', 'left_created', 'ledger_position')
  redis.call('HSET', KEYS[1], 'left', int(math.max(tonumber(c[7]), tonumber(left[1] or 0))),
    'left_created', int(math.max(tonumber(ARGV[8]), tonumber(left[2] or 0))),
    'ledger_position', int(math.max(tonumber(c[7]), tonumber(left[3] or left[1] or 0))))
end
redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[13], KEYS[14], KEYS[16],
  KEYS[17])
redis.call('ZREM', KEYS[15], ARGV[6])
schedule(KEYS[1], KEYS[4], ARGV[6])
return {'ok', ''}
