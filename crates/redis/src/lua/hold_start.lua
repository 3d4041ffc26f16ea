-- Keeps a shard of a spread sale, other than the first, from opening before a later start on which the first shard has
-- not decided yet. Idempotent. Only terms of a later revision end this: follow_terms.lua. If the first shard never
-- decides, a tick of this shard asks it for a new revision.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the revision of the first shard, ARGV[8] the start
-- Replies: {"ok", tally}, {"unknown", ""}, {"opened", ""} if the shard has opened already
-- luacheck: read globals c now answer phase_at put reschedule tally finish
-- luacheck: globals gate
local revision, start = tonumber(ARGV[7]), tonumber(ARGV[8])
-- A shard with later terms, or held at a later revision, gets an old call: the first shard has decided since.
if c.kind == 'sale' and c.phase ~= 'c' and c.terms <= revision and c.held <= revision then
  if phase_at(now) == 'l' or c.grants > 0 then
    return {'opened', ''}
  end
  put('not_before', math.max(c.not_before, start))
  put('held', revision)
  gate = true
  reschedule()
  finish()
end
return answer(tally())
