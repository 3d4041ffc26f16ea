-- Decides a batch of claims for shares of one red packet.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] values per claim, ARGV[8..] the claims, as in batch.lua
-- Replies: {"ok", head "\n" outcome "\n" outcome …}, see reply.rs; {"unknown", ""}
-- luacheck: read globals seq int answer claim_shares written damaged
local values = tonumber(ARGV[7])
local text, broken = claim_shares(ARGV[6], KEYS[5], KEYS[6], KEYS[8], 7, (#ARGV - 7) / values, values)
if broken then
  return damaged(broken)
elseif not text then
  return {'unknown', ''}
elseif written or ARGV[5] == '1' then
  return answer(text)
end
return {'ok', text, int(seq)}
