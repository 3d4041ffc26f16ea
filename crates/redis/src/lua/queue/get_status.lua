-- Reads the status of users in a campaign's queue.
-- KEYS[1] line, KEYS[2] places, KEYS[3..] result of each user's last entry
-- ARGV the users
-- Replies: for each user "w", the number of the queue's first entry and the stored text of the user's; "d", the entry's
-- number and its result; or ""
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local replies = {}
for at, user in ipairs(ARGV) do
  local place = redis.call('HGET', KEYS[2], user)
  local decided = not place and redis.call('GET', KEYS[2 + at])
  replies[at] = place and string.format('w %.0f %s', tonumber(first), place) or decided and 'd ' .. decided or ''
end
return replies
