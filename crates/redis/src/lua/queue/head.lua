-- Reads the first entries of a queue.
-- KEYS[1] line, KEYS[2] places
-- ARGV[1] maximum number of entries
-- Replies: the number of entries in the queue; then for each entry read its user and its stored text
local users = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)
local reply = {tostring(redis.call('HLEN', KEYS[2]))}
for _, user in ipairs(users) do
  reply[#reply + 1] = user
  reply[#reply + 1] = redis.call('HGET', KEYS[2], user)
end
return reply
