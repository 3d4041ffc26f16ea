-- Pauses, resumes or closes a campaign, or a part of one. Doing it again changes nothing: a paused campaign is paused
-- until it is closed, also when its window is over.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] pause, resume or close
-- Replies: {"ok", tally}, {"unknown", ""}, {"refused", phase}, {"busy", ""} while units are moving elsewhere
-- luacheck: read globals c now answer phase_at put record close reschedule tally finish
-- luacheck: globals gate
local phase = phase_at(now)
if ARGV[7] == 'pause' and c.phase ~= 'p' then
  if phase ~= 'l' then
    return {'refused', phase}
  end
  record('paused')
  put('phase', 'p')
  gate = true
elseif ARGV[7] == 'resume' and phase ~= 'l' then
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
finish()
return answer(tally())
