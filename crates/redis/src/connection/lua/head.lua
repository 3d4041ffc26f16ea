-- Returns the last entry of the log.
-- KEYS[1] partition
-- ARGV[1..2] as in fence.lua
-- Replies: {"ok", entry}
-- luacheck: read globals seq
return {'ok', string.format('%.0f', seq)}
