-- Moves the oldest items of a partition's list into the list of items that a worker has received.
-- KEYS[1] queue, KEYS[2] doing, KEYS[3] lease, KEYS[4] partition
-- ARGV[1] the worker's token, ARGV[2] maximum number of items
-- Replies: the partition's epoch, and the items; no item if another worker has the lease
local items = {}
local epoch = redis.call('HGET', KEYS[4], 'epoch') or ''
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return {epoch, items}
end
for n = 1, tonumber(ARGV[2]) do
  local item = redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
  if not item then
    break
  end
  items[n] = item
end
return {epoch, items}
