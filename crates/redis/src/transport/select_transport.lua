-- Selects the configured transport for a partition's entries, and removes what another transport left. No worker would
-- empty those lists, and an old consumer group would keep the log from being trimmed.
-- KEYS[1] partition, KEYS[2] log, KEYS[3] queue, KEYS[4] doing
-- ARGV[1] "stream", "list", or "none" for a transport outside Redis; ARGV[2] the consumer group
-- Replies: 1
if redis.call('EXISTS', KEYS[1]) == 0 then
  -- No node has used this partition yet, or Redis has lost it.
  return 1
end
if ARGV[1] == 'list' then
  redis.call('HSET', KEYS[1], 'list', '1')
else
  redis.call('HDEL', KEYS[1], 'list')
  redis.call('DEL', KEYS[3], KEYS[4])
end
if ARGV[1] ~= 'stream' and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('XGROUP', 'DESTROY', KEYS[2], ARGV[2])
end
return 1
