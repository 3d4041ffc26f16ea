-- Removes entries from a campaign's queue and stores their results for some time. An entry that is gone or was replaced
-- is skipped. After whole_line.lua.
-- KEYS[1] waiting, KEYS[2] entries in all queues, KEYS[3] line, KEYS[4] places, KEYS[5..] result key of each user
-- ARGV[1] the campaign, ARGV[2] milliseconds that results are stored,
-- ARGV[3..] in threes: a user; the stored text of the entry; its number and its result
-- Replies: the number of removed entries; 1 if the keys of the queue were damaged, or 0
-- luacheck: read globals remove_other mend_line list_line
local is_rebuilt = mend_line(KEYS[3], KEYS[4])
is_rebuilt = remove_other(KEYS[1], 'hash') or is_rebuilt
is_rebuilt = remove_other(KEYS[2], 'string') or is_rebuilt
local count = 0
for at = 3, #ARGV, 3 do
  local user = ARGV[at]
  if redis.call('HGET', KEYS[4], user) == ARGV[at + 1] then
    redis.call('ZREM', KEYS[3], user)
    redis.call('HDEL', KEYS[4], user)
    redis.call('SET', KEYS[5 + (at - 3) / 3], ARGV[at + 2], 'PX', ARGV[2])
    count = count + 1
  end
end
local left, counted = redis.call('HLEN', KEYS[4]), tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or nil) or 0
local all = tonumber(redis.call('GET', KEYS[2]) or nil)
if all and left ~= counted then
  redis.call('SET', KEYS[2], all + left - counted, 'KEEPTTL')
end
list_line(KEYS[1], ARGV[1], KEYS[4])
return {count, is_rebuilt and 1 or 0}
