-- Moves the items that a dead worker had received to their list again, in order.
-- KEYS[1] queue, KEYS[2] doing, KEYS[3] lease
-- ARGV[1] the worker's token
-- Replies: the number of items
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
local count = 0
while redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'LEFT') do
  count = count + 1
end
return count
