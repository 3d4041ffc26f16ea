-- Takes a partition for one worker, or keeps it. The lease saves double work and no more: the ledger takes every entry
-- once, whoever brings it.
-- KEYS[1] lease
-- ARGV[1] the worker's token; ARGV[2] milliseconds
-- Replies: 1 if the worker has the partition, 0 if another one has
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if holder then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
