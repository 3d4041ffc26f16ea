-- Adds users at the end of a campaign's queue. A user who has an entry keeps it. No number is issued twice, even if the
-- queue was empty in between. After whole_line.lua.
-- KEYS[1] waiting, KEYS[2] number of the last entry, KEYS[3] entries in all queues, KEYS[4] line, KEYS[5] places,
-- KEYS[6..] result of each user's last entry
-- ARGV[1] the campaign, ARGV[2] maximum entries in its queue, ARGV[3] maximum entries in the partition, ARGV[4..] in
-- pairs: a user; the text to store after the entry's number
-- Replies: for each user "w", the number of the queue's first entry and the stored text of the user's; or "full". Then
-- "rebuilt" if the keys of the queue were damaged
-- luacheck: read globals remove_other mend_line rebuild_line has_place
local COUNTED_S = 60
local function number_at(index)
  return tonumber(redis.call('ZRANGE', KEYS[4], index, index, 'WITHSCORES')[2])
end
local is_rebuilt = mend_line(KEYS[4], KEYS[5])
for at = 4, #ARGV, 2 do
  local place = redis.call('HGET', KEYS[5], ARGV[at])
  if place and not has_place(redis.call('ZSCORE', KEYS[4], ARGV[at]), place) then
    rebuild_line(KEYS[4], KEYS[5])
    is_rebuilt = true
    break
  end
end
is_rebuilt = remove_other(KEYS[1], 'hash') or is_rebuilt
is_rebuilt = remove_other(KEYS[2], 'string') or is_rebuilt
is_rebuilt = remove_other(KEYS[3], 'string') or is_rebuilt
local all = tonumber(redis.call('GET', KEYS[3]) or nil)
if not all then
  -- The count is renewed at intervals, because some changes of queues may have missed it.
  all = 0
  for _, count in ipairs(redis.call('HVALS', KEYS[1])) do
    all = all + (tonumber(count) or 0)
  end
  -- If Redis has no memory for the count, the next call counts again.
  redis.pcall('SET', KEYS[3], all, 'EX', COUNTED_S)
end
local here, first = redis.call('HLEN', KEYS[5]), number_at(0)
-- A queue may be older than the key.
local last = math.max(tonumber(redis.call('GET', KEYS[2]) or nil) or 0, number_at(-1) or 0)
local before, replies = here, {}
for at = 4, #ARGV, 2 do
  local user = ARGV[at]
  local place = redis.call('HGET', KEYS[5], user)
  if not place and (here >= tonumber(ARGV[2]) or all >= tonumber(ARGV[3])) then
    replies[#replies + 1] = 'full'
  else
    if not place then
      last = last + 1
      first = first or last
      place = string.format('%.0f %s', last, ARGV[at + 1])
      redis.call('ZADD', KEYS[4], last, user)
      redis.call('HSET', KEYS[5], user, place)
      redis.call('DEL', KEYS[6 + (at - 4) / 2])
      here, all = here + 1, all + 1
    end
    replies[#replies + 1] = string.format('w %.0f %s', first, place)
  end
end
if here > before then
  local counted = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or nil) or 0
  redis.call('HSET', KEYS[1], ARGV[1], here)
  redis.call('SET', KEYS[3], all + before - counted, 'KEEPTTL')
  redis.call('SET', KEYS[2], string.format('%.0f', last))
end
if is_rebuilt then
  replies[#replies + 1] = 'rebuilt'
end
return replies
