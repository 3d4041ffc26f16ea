-- Reads the status of users in a campaign's queue. After whole_line.lua.
-- KEYS[1] waiting, KEYS[2] line, KEYS[3] places, KEYS[4..] result of each user's last entry
-- ARGV[1] the campaign, ARGV[2..] the users
-- Replies: for each user "w", the number of the queue's first entry and the stored text of the user's; "d", the entry's
-- number and its result; or "". Then "rebuilt" if the keys of the queue were damaged
-- luacheck: read globals remove_other mend_line rebuild_line has_place list_line
local is_rebuilt = mend_line(KEYS[2], KEYS[3])
local places = {}
for at = 2, #ARGV do
  local place = redis.call('HGET', KEYS[3], ARGV[at])
  if place and not has_place(redis.call('ZSCORE', KEYS[2], ARGV[at]), place) then
    rebuild_line(KEYS[2], KEYS[3])
    is_rebuilt = true
    place = redis.call('HGET', KEYS[3], ARGV[at])
  end
  places[at] = place
end
is_rebuilt = list_line(KEYS[1], ARGV[1], KEYS[3]) or is_rebuilt
local first = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
local replies = {}
for at = 2, #ARGV do
  local own, decided = KEYS[2 + at], nil
  if not places[at] then
    is_rebuilt = remove_other(own, 'string') or is_rebuilt
    decided = redis.call('GET', own)
  end
  replies[at - 1] = places[at] and string.format('w %.0f %s', first, places[at]) or decided and 'd ' .. decided or ''
end
if is_rebuilt then
  replies[#replies + 1] = 'rebuilt'
end
return replies
