-- Stores a chunk of what a node has answered past the end of the log, until the partition is repaired. The first chunk
-- of an attempt deletes the chunks of earlier attempts. A chunk of an earlier attempt is refused. Idempotent.
-- KEYS[1] partition, KEYS[2] answers
-- ARGV[1] the loss, ARGV[2] node, ARGV[3] the number of the node's attempt, ARGV[4] the number of the chunk, from 0 on,
-- ARGV[5] its entries as lines, ARGV[6] empty, or, with the last chunk, the entry from which on the chunks are complete
-- Replies: {"ok", ""}; {"over", ""} if it is about another loss or none, or a later attempt has begun; {"gap", chunk}
-- if an earlier chunk is missing
local p = redis.call('HMGET', KEYS[1], 'halted', 'lost_from', 'lost_to')
if not p[1] or not p[3] or p[2] .. '-' .. p[3] ~= ARGV[1] then
  return {'over', ''}
end
local node, chunk = ARGV[2], tonumber(ARGV[4])
local known = tonumber(string.match(redis.call('HGET', KEYS[2], node) or '', '^%S+ (%d+)')) or -1
if known > tonumber(ARGV[3]) then
  return {'over', ''}
elseif known < tonumber(ARGV[3]) then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.find(field, node .. ' ', 1, true) == 1 then
      redis.call('HDEL', KEYS[2], field)
    end
  end
  redis.call('HSET', KEYS[2], node, ARGV[1] .. ' ' .. ARGV[3])
end
redis.call('HSET', KEYS[2], node .. ' ' .. ARGV[4], ARGV[5])
if ARGV[6] ~= '' then
  -- Redis may have lost its data in between.
  for before = 0, chunk - 1 do
    if not redis.call('HGET', KEYS[2], node .. ' ' .. before) then
      return {'gap', tostring(before)}
    end
  end
  redis.call('HSET', KEYS[2], node, ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. ARGV[6])
end
return {'ok', ''}
