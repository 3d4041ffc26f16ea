-- Returns the counters of a campaign or one shard of it.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua
-- Replies: {"ok", tally}, {"unknown", ""}
-- luacheck: read globals tally
return {'ok', tally()}
