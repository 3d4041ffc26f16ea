-- Removes settled items: those at the head of the list, up to the first that is not settled. An item begins with the
-- position of its last entry.
-- KEYS[1] doing
-- ARGV[1] the last settled entry
-- Replies: the number of removed items
local count = 0
while true do
  local item = redis.call('LINDEX', KEYS[1], 0)
  local last = item and tonumber(string.match(item, '^%d+'))
  if not last or last > tonumber(ARGV[1]) then
    return count
  end
  redis.call('LPOP', KEYS[1])
  count = count + 1
end
