-- Last step of a transfer: removes received units from the journal. If the receiving shard has closed, the units return
-- to this shard.
-- KEYS as in prelude.lua
-- ARGV[1..6] as in prelude.lua, ARGV[7] the receiving shard, ARGV[8] transfer, ARGV[9] arrived or back
-- Replies: {"ok", ""}, {"unknown", ""}
-- luacheck: read globals seq int take_in record finish
local standing = redis.call('HGET', KEYS[11], ARGV[7])
if standing and string.match(standing, '^%d+') == ARGV[8] then
  redis.call('HDEL', KEYS[11], ARGV[7])
  redis.call('HSET', KEYS[5], 'moving', redis.call('HLEN', KEYS[11]))
  if redis.call('HGET', KEYS[5], 'newest_transfer') == ARGV[7] .. ' ' .. ARGV[8] then
    redis.call('HDEL', KEYS[5], 'newest_transfer')
  end
  if ARGV[9] == 'back' then
    local lines = {}
    for line in string.gmatch(standing, '[^\n]+') do
      lines[#lines + 1] = line
    end
    local money = take_in(tonumber(lines[2]), lines, 3)
    record(table.concat({'transfer_returned', ARGV[7], lines[2], int(money)}, ' '))
    finish()
  end
end
return {'ok', '', int(seq)}
