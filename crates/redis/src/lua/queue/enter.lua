-- Gives users places at the end of a campaign's line. Who has one keeps it. No number is given twice, also where the
-- line was empty in between.
-- KEYS[1] waiting, KEYS[2] number of the last place, KEYS[3] how many wait in all lines, KEYS[4] line, KEYS[5] places,
-- KEYS[6..] what became of each user's last place
-- ARGV[1] the campaign, ARGV[2] places at most in its line, ARGV[3] places at most in the partition,
-- ARGV[4..] in pairs: a user; what to keep of the place behind its number
-- Replies: for each user "w", the number of the first place in line and what is kept of the user's; or "full"
local COUNTED_S = 60
local function number_at(index)
  return tonumber(redis.call('ZRANGE', KEYS[4], index, index, 'WITHSCORES')[2])
end
local all = tonumber(redis.call('GET', KEYS[3]))
if not all then
  -- From time to time, and behind what may have changed lines without the number.
  all = 0
  for _, count in ipairs(redis.call('HVALS', KEYS[1])) do
    all = all + tonumber(count)
  end
  -- Without memory for it, the next call counts again.
  redis.pcall('SET', KEYS[3], all, 'EX', COUNTED_S)
end
local here, first = redis.call('HLEN', KEYS[5]), number_at(0)
-- A line may be older than the key.
local last = math.max(tonumber(redis.call('GET', KEYS[2]) or 0), number_at(-1) or 0)
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
  local counted = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
  redis.call('HSET', KEYS[1], ARGV[1], here)
  redis.call('SET', KEYS[3], all + before - counted, 'KEEPTTL')
  redis.call('SET', KEYS[2], string.format('%.0f', last))
end
return replies
