-- Gives users places at the end of a campaign's line. Who has one keeps it. No number is given twice, also where the
-- line was empty in between.
-- KEYS[1] waiting, KEYS[2] number of the last place, KEYS[3] line, KEYS[4] places, KEYS[5..] what became of each
-- user's last place
-- ARGV[1] the campaign, ARGV[2] places at most in its line, ARGV[3] places at most in the partition,
-- ARGV[4..] in pairs: a user; what to keep of the place behind its number
-- Replies: for each user "w", the number of the first place in line and what is kept of the user's; or "full"
local function number_at(index)
  return tonumber(redis.call('ZRANGE', KEYS[3], index, index, 'WITHSCORES')[2])
end
local all = 0
for _, count in ipairs(redis.call('HVALS', KEYS[1])) do
  all = all + tonumber(count)
end
local here, first = redis.call('HLEN', KEYS[4]), number_at(0)
-- A line may be older than the key.
local last = math.max(tonumber(redis.call('GET', KEYS[2]) or 0), number_at(-1) or 0)
local before, replies = here, {}
for at = 4, #ARGV, 2 do
  local user = ARGV[at]
  local place = redis.call('HGET', KEYS[4], user)
  if not place and (here >= tonumber(ARGV[2]) or all >= tonumber(ARGV[3])) then
    replies[#replies + 1] = 'full'
  else
    if not place then
      last = last + 1
      first = first or last
      place = string.format('%.0f %s', last, ARGV[at + 1])
      redis.call('ZADD', KEYS[3], last, user)
      redis.call('HSET', KEYS[4], user, place)
      redis.call('DEL', KEYS[5 + (at - 4) / 2])
      here, all = here + 1, all + 1
    end
    replies[#replies + 1] = string.format('w %.0f %s', first, place)
  end
end
if here > before then
  redis.call('HSET', KEYS[1], ARGV[1], here)
  redis.call('SET', KEYS[2], string.format('%.0f', last))
end
return replies
