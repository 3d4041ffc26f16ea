-- Fence, the first part of every script of a partition. It checks that the partition is open in the caller's term, and
-- that this server is the primary of that term. Sets `partition` and `seq`, the partition's last log entry.
-- KEYS[1] partition
-- ARGV[1] the term; or `epoch` and the epoch, from callers that read from replicas and decide nothing,
-- ARGV[2] the last entry that the caller knows
-- Replies: {"term", ""} if nothing was done; the caller finds out more by presence.lua
-- luacheck: ignore 211
local partition = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'open', 'list', 'server')
local seq = tonumber(partition[2])
if seq and partition[3] == ARGV[1] then
  local info = redis.call('INFO', 'replication')
  if seq < tonumber(ARGV[2]) or not string.find(info, 'role:master', 1, true)
    or not string.find(info, 'master_replid:' .. partition[5], 1, true) then
    return {'term', ''}
  end
elseif not seq or 'epoch ' .. tostring(partition[1]) ~= ARGV[1] then
  return {'term', ''}
end
