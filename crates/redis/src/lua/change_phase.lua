-- Pauses, resumes or closes a campaign or one shard of it. Idempotent. A paused campaign stays paused until it is
-- closed, even after its window ends. A campaign that is paused before its start is scheduled again by a resume.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] pause, resume or close, ARGV[8] the id of its key if this is its last step, or
-- empty
-- Replies: {"ok", tally}, {"unknown", ""}, {"refused", phase}, {"busy", ""} while a transfer of units is pending
-- luacheck: read globals c now answer phase_at put record close reschedule tally finish
-- luacheck: globals gate
local phase = phase_at(now)
if ARGV[7] == 'pause' and c.phase ~= 'p' then
  if phase ~= 'l' and phase ~= 's' then
    return {'refused', phase}
  end
  record('paused')
  put('phase', 'p')
  gate = true
elseif ARGV[7] == 'resume' and phase ~= 'l' and phase ~= 's' then
  if phase ~= 'p' then
    return {'refused', phase}
  end
  record('resumed')
  put('phase', 's')
  gate = true
elseif ARGV[7] == 'close' and phase ~= 'c' then
  if redis.call('HLEN', KEYS[11]) > 0 then
    return {'busy', ''}
  end
  close()
  reschedule()
end
if ARGV[8] ~= '' then
  record('change_made ' .. ARGV[8])
end
finish()
return answer(tally())
