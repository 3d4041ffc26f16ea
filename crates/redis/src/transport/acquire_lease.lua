-- Acquires or renews one worker's lease of a partition. The lease only saves duplicate work: the ledger accepts each
-- entry once, from any worker.
-- KEYS[1] lease
-- ARGV[1] the worker's token; ARGV[2] milliseconds
-- Replies: 1 if the worker has the lease, 0 if another one has it
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if holder then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
