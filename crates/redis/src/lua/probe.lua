-- Runs all steps of a grant, including a write, and grants nothing.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua
-- Replies: {"ok", milliseconds}
-- luacheck: read globals now int answer
return answer(int(now))
