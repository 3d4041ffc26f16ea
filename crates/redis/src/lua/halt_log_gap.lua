-- Halts the partition because its log lacks entries that the ledger does not have, so that a repair restores them. Rows
-- still have them, so nothing counts as lost.
-- Does nothing if the ledger had the entries before and was set back. Only an operator may accept such a ledger.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] first entry of the gap, ARGV[8] last entry of the gap, ARGV[9] the log's epoch
-- Replies: {"ok", "1"} if it is halted, {"ok", ""} if it is not
-- luacheck: read globals partition seq int
local first, last = tonumber(ARGV[7]), tonumber(ARGV[8])
local position = tonumber(redis.call('HGET', KEYS[1], 'ledger_position'))
if ARGV[9] ~= partition[1] or not position or first <= position or last < first or last > seq
  or #redis.call('XRANGE', KEYS[2], int(first) .. '-0', int(last) .. '-0', 'COUNT', 1) > 0 then
  return {'ok', ''}
end
local reason = 'entries ' .. int(first) .. ' to ' .. int(last) .. ' are gone from the log, and the ledger lacks them'
redis.call('HSET', KEYS[1], 'halted', reason, 'lost_from', int(seq + 1), 'lost_to', int(seq),
  'gap_from', partition[1] .. ' ' .. int(first))
redis.call('HDEL', KEYS[1], 'open')
return {'ok', '1'}
