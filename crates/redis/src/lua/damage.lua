-- Checks whether a campaign is damaged, then removes its keys or halts the partition. Without its keys, no script finds
-- the campaign until it is reloaded from the ledger. After a halt, a repair rebuilds it.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] "1" if the campaign is open in the ledger, ARGV[8] `look` to check; `take` to
-- remove its keys; both remove them if its hash is gone; `halt` to halt, ARGV[9] the reason of a halt
-- Replies: {"ok", entry} if its keys are removed: no later entry is about it; {"ok", ""} if nothing is wrong;
-- {"halted", ""}
-- luacheck: read globals seq int damaged has_due length
local field = 'damaged:' .. ARGV[6]
local noted = redis.call('HGET', KEYS[1], field)
local is_gone = redis.call('EXISTS', KEYS[5]) == 0
if is_gone then
  if not noted and ARGV[7] ~= '1' and not has_due(ARGV[6]) then
    return {'ok', ''}
  end
elseif not noted and length('HLEN', KEYS[5]) >= 0 then
  return {'ok', ''}
end
if ARGV[8] == 'halt' then
  -- This loss is empty.
  redis.call('HSET', KEYS[1], field, noted or '?', 'halted', ARGV[9], 'lost_from', int(seq + 1), 'lost_to', int(seq))
  redis.call('HDEL', KEYS[1], 'open')
  return {'halted', ''}
elseif is_gone and tonumber(noted) then
  return {'ok', noted}
elseif not is_gone and ARGV[8] == 'look' then
  return damaged('campaign')
end
redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[13], KEYS[14])
redis.call('HSET', KEYS[1], field, int(seq))
return {'ok', int(seq)}
