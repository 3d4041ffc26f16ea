-- Appends entries that neither the log nor the ledger has. Idempotent.
-- KEYS[1] partition, KEYS[2] log, KEYS[3] queue
-- ARGV[1] the repairer's token, ARGV[2] the log's end before, ARGV[3] and after; then for each record the number of its
-- entries, campaign, milliseconds, kind and body
-- Replies: {"ok", ""}, {"gone", ""} if another process repairs, {"gap", seq}
local p = redis.call('HMGET', KEYS[1], 'halted', 'repairer', 'seq', 'list', 'epoch')
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if not p[1] or p[2] ~= ARGV[1] or string.sub(ARGV[1], -#server) ~= server then
  return {'gone', ''}
end
if p[3] == ARGV[3] then
  return {'ok', ''}
end
if p[3] ~= ARGV[2] then
  return {'gap', p[3]}
end
local seq = tonumber(ARGV[2])
for i = 4, #ARGV, 5 do
  seq = seq + tonumber(ARGV[i])
  local id, campaign, at, field, body = string.format('%.0f', seq), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  redis.call('XADD', KEYS[2], id .. '-0', 'c', campaign, 't', at, field, body)
  if p[4] then
    redis.pcall('RPUSH', KEYS[3], id .. ' ' .. campaign .. ' ' .. at .. ' ' .. field .. ' ' .. (p[5] or '-')
      .. '\n' .. body)
  end
end
redis.call('HSET', KEYS[1], 'seq', ARGV[3])
return {'ok', ''}
