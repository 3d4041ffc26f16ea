-- Changes a partition's agenda. The agenda counts its changes in the score of the member "+", which comes after every
-- time, and so does the partition's hash. Both are raised and never compared here: an agenda that was deleted,
-- overwritten or set back stays different until it is rebuilt, see agenda_rebuild.lua. An agenda of another type raises
-- no error, because that would end a script between two writes.
-- KEYS none of its own
-- ARGV none of its own
-- Replies: none of its own
-- luacheck: ignore 211
local AGENDA_BASE = 4000000000000000

-- Notes when something of a campaign is due; nil if nothing is. `flag` is an option of ZADD.
local function schedule(state, agenda, campaign, due, flag)
  local changed
  if not due then
    changed = redis.pcall('ZREM', agenda, campaign)
  elseif flag then
    changed = redis.pcall('ZADD', agenda, flag, 'CH', due, campaign)
  else
    changed = redis.pcall('ZADD', agenda, 'CH', due, campaign)
  end
  if changed == 0 then
    return
  elseif redis.call('HINCRBY', state, 'agenda', 1) == 1 then
    redis.pcall('ZADD', agenda, string.format('%d', AGENDA_BASE + 1), '+')
  else
    redis.pcall('ZADD', agenda, 'XX', 'INCR', 1, '+')
  end
end

-- By how many changes the hash and the agenda differ: 0 for a good agenda; nil if it has no count or another type.
local function agenda_lag(state, agenda)
  local stated = tonumber(redis.call('HGET', state, 'agenda') or nil)
  local last = redis.pcall('ZRANGE', agenda, -1, -1, 'WITHSCORES')
  if last.err then
    return nil
  elseif not stated then
    return 0
  end
  return last[1] == '+' and stated - (tonumber(last[2]) - AGENDA_BASE) or nil
end
