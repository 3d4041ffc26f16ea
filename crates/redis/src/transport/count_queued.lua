-- Counts the entries of a partition that no worker has received yet. Only reads.
-- KEYS[1] partition, KEYS[2] log, KEYS[3] queue, KEYS[4] doing
-- ARGV[1] "stream" or "list"; ARGV[2] the consumer group
-- Replies: number of entries after the last record delivered to the group; or number of items in the list
if ARGV[1] == 'list' then
  return redis.call('LLEN', KEYS[3])
end
local last = tonumber(redis.call('HGET', KEYS[1], 'seq') or 0)
if last == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', KEYS[2])) do
  local group = {}
  for n = 1, #fields, 2 do
    group[fields[n]] = fields[n + 1]
  end
  if group['name'] == ARGV[2] then
    return math.max(0, last - tonumber(string.match(group['last-delivered-id'], '^%d+')))
  end
end
return 0
