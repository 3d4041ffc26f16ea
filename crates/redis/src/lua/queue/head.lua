-- Reads the first entries of a queue. After whole_line.lua.
-- KEYS[1] waiting, KEYS[2] line, KEYS[3] places
-- ARGV[1] the campaign, ARGV[2] maximum number of entries
-- Replies: the number of entries in the queue; "rebuilt" if the keys of the queue were damaged, or ""; then for each
-- entry read its user and its stored text
-- luacheck: read globals remove_other mend_line rebuild_line has_place list_line
local is_rebuilt = mend_line(KEYS[2], KEYS[3])
local function read()
  local line, entries = redis.call('ZRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1, 'WITHSCORES'), {}
  for at = 1, #line, 2 do
    local place = redis.call('HGET', KEYS[3], line[at])
    if not has_place(line[at + 1], place) then
      return nil
    end
    entries[#entries + 1] = line[at]
    entries[#entries + 1] = place
  end
  return entries
end
local entries = read()
if not entries then
  rebuild_line(KEYS[2], KEYS[3])
  is_rebuilt = true
  entries = read() or {}
end
is_rebuilt = list_line(KEYS[1], ARGV[1], KEYS[3]) or is_rebuilt
local reply = {tostring(redis.call('HLEN', KEYS[3])), is_rebuilt and 'rebuilt' or ''}
for _, text in ipairs(entries) do
  reply[#reply + 1] = text
end
return reply
