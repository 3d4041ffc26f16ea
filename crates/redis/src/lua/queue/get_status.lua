-- Where users stand in a campaign's line.
-- KEYS[1] line, KEYS[2] places, KEYS[3..] what became of each user's last place
-- ARGV the users
-- Replies: for each user "w", the number of the first place in line and what is kept of the user's; "d", the place's
-- number and what became of it; or ""
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local replies = {}
for at, user in ipairs(ARGV) do
  local place = redis.call('HGET', KEYS[2], user)
  local decided = not place and redis.call('GET', KEYS[2 + at])
  replies[at] = place and string.format('w %.0f %s', tonumber(first), place) or decided and 'd ' .. decided or ''
end
return replies
