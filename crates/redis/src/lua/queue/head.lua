-- The first places of a line.
-- KEYS[1] line, KEYS[2] places
-- ARGV[1] how many
-- Replies: how many wait; then for each place its user, and what is kept of it
local users = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)
local reply = {tostring(redis.call('HLEN', KEYS[2]))}
for _, user in ipairs(users) do
  reply[#reply + 1] = user
  reply[#reply + 1] = redis.call('HGET', KEYS[2], user)
end
return reply
