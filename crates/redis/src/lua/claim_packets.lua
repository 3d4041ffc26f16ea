-- Decides claims for shares of several red packets that are not spread. An error at one packet, such as a key of
-- another type, fails the claims of that packet only.
-- KEYS[1..12] as in prelude.lua, KEYS[13..] of each packet: campaign, shares, users
-- ARGV[1..6] as in prelude.lua, ARGV[7..] of each packet: its id, number of claims, values per claim, and the claims,
-- as in batch.lua
-- Replies: {"ok", parts}, one per packet, see reply.rs
-- luacheck: read globals seq int answer claim_shares damaged
-- luacheck: globals written
local OWN_KEYS, OWN_ARGV = 12, 6
local parts, before = {}, false
local key, at = OWN_KEYS + 1, OWN_ARGV + 3
while ARGV[at] do
  local n, values = tonumber(ARGV[at - 1]), tonumber(ARGV[at])
  before, written = before or written, false
  local done, part, broken = pcall(claim_shares, ARGV[at - 2], KEYS[key], KEYS[key + 1], KEYS[key + 2], at, n, values)
  if not done then
    local reason = type(part) == 'table' and part.err or tostring(part)
    if not before and not written and (string.find(reason, 'NOREPLICAS', 1, true) == 1
      or string.find(reason, 'MISCONF', 1, true) == 1) then
      -- Redis accepts no writes now, and reports this at the first write. The caller retries.
      return {err = reason}
    end
    part = (written and '!' or '-') .. reason
  end
  if broken then
    damaged(broken, ARGV[at - 2])
    part = '#'
  end
  part = part or '?'
  parts[#parts + 1] = #part .. '\n' .. part
  key, at = key + 3, at + n * values + 3
end
local text = table.concat(parts)
if before or written or ARGV[5] == '1' then
  return answer(text)
end
return {'ok', text, int(seq)}
