-- Begins or ends a rebuild of the agenda. In between, the caller schedules each campaign of the partition. A rebuild
-- ends only if the agenda still differs by as many changes as at its beginning: another damage in between begins
-- another rebuild.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] empty at the beginning; at the end what the beginning has replied, ARGV[8..]
-- campaigns that could not be scheduled: they are due at once
-- Replies: {"ok", changes by which the agenda differs}, {"ok", ""} at the end, {"changed", ""} where the rebuild is
-- to begin again
-- luacheck: read globals int agenda_lag AGENDA_BASE
local lag = agenda_lag(KEYS[1], KEYS[4])
if ARGV[7] == '' then
  if not lag then
    if redis.pcall('ZRANGE', KEYS[4], 0, 0).err then
      redis.call('UNLINK', KEYS[4])
    end
    redis.call('ZADD', KEYS[4], int(AGENDA_BASE), '+')
    lag = tonumber(redis.call('HGET', KEYS[1], 'agenda') or 0)
  end
  return {'ok', int(lag)}
elseif lag == 0 then
  return {'ok', ''}
elseif lag ~= tonumber(ARGV[7]) then
  return {'changed', ''}
end
for i = 8, #ARGV do
  redis.call('ZADD', KEYS[4], 0, ARGV[i])
end
redis.call('HINCRBY', KEYS[1], 'agenda', int(-lag))
return {'ok', ''}
