-- Functions for the keys of a campaign's queue. `line` orders the users, and `places` has their entries. A key that was
-- deleted, set back or overwritten manually differs from the other one, and then `places` decides, because only it has
-- whole entries. A key of another type is removed first, because it would end a script between two writes.
-- KEYS none of its own
-- ARGV none of its own
-- Replies: none of its own
-- luacheck: ignore 211

-- Removes a key that is not of this type. Returns whether it did.
local function remove_other(key, kind)
  local found = redis.call('TYPE', key).ok
  if found == kind or found == 'none' then
    return false
  end
  redis.call('UNLINK', key)
  return true
end

-- Whether a user of the line has the entry with the same number.
local function has_place(score, place)
  return score and place and tonumber(score) == tonumber(string.match(place, '^(%d+) ') or nil)
end

-- Builds the line of the entries in `places`. Users without an entry leave the queue.
local function rebuild_line(line, places)
  local entries = redis.call('HGETALL', places)
  redis.call('DEL', line)
  for at = 1, #entries, 2 do
    local number = string.match(entries[at + 1], '^(%d+) ')
    if number then
      redis.call('ZADD', line, number, entries[at])
    else
      redis.call('HDEL', places, entries[at])
    end
  end
end

-- Rebuilds the line if the two keys differ in their types or sizes. Returns whether they did.
local function mend_line(line, places)
  local other = remove_other(line, 'zset')
  other = remove_other(places, 'hash') or other
  if not other and redis.call('ZCARD', line) == redis.call('HLEN', places) then
    return false
  end
  rebuild_line(line, places)
  return true
end

-- Makes the partition's list of queues state this queue's size, so that its entries are decided. Returns whether the
-- list lacked the queue.
local function list_line(waiting, campaign, places)
  remove_other(waiting, 'hash')
  local size, stated = redis.call('HLEN', places), redis.call('HGET', waiting, campaign)
  if size == 0 then
    redis.call('HDEL', waiting, campaign)
  elseif tonumber(stated or nil) ~= size then
    redis.call('HSET', waiting, campaign, size)
  end
  return size > 0 and not stated
end
