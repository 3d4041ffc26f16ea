-- Forgets records of the log whose entries are all settled; but none that another consumer group has not acknowledged.
-- A record's id is the place of its last entry.
-- KEYS[1] log
-- ARGV[1] the last settled entry; ARGV[2] our consumer group
-- Replies: how many records were forgotten
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local upto = tonumber(ARGV[1])
local function place(id)
  return tonumber(string.match(id, '^%d+'))
end
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for n = 1, #fields, 2 do
    group[fields[n]] = fields[n + 1]
  end
  if group['name'] ~= ARGV[2] then
    upto = math.min(upto, place(group['last-delivered-id']))
    if group['pending'] > 0 then
      local oldest = redis.call('XPENDING', KEYS[1], group['name'])[2]
      upto = math.min(upto, place(oldest) - 1)
    end
  end
end
return redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-0', upto + 1))
