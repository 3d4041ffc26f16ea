-- Copies the terms of the first shard of a spread sale to another shard. Idempotent. Terms older than those of the
-- shard change nothing. A closed shard stores them without an entry.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the revision, ARGV[8..12] start, end, limit, price and admission in percent
-- Replies: {"ok", tally}, {"unknown", ""}
-- luacheck: read globals c answer put record reschedule tally finish terms_text
-- luacheck: globals gate
local revision = tonumber(ARGV[7])
if revision > c.terms then
  put('opens', tonumber(ARGV[8]))
  put('ends', tonumber(ARGV[9]))
  put('limit', tonumber(ARGV[10]))
  put('price', tonumber(ARGV[11]))
  put('admit', tonumber(ARGV[12]))
  put('terms', revision)
  if c.phase ~= 'c' then
    record('terms_changed ' .. terms_text())
  end
  gate = true
  reschedule()
  finish()
end
return answer(tally())
