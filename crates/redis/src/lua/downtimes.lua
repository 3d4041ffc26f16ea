-- When no node served the partition. Holds stand still meanwhile: nobody could pay. The nodes that serve say again and
-- again that they do, by record_uptime.lua; where it was long from one time to the next, the partition was down between them.
-- Sets `up`, when it was said last, and `downtimes`, once they are read. `up` is 0 where what was known of it is lost.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: none of its own
-- luacheck: read globals now
-- luacheck: ignore 211
local DOWN_MS = 5000
local up, downtimes = nil, {}

-- Reads them, and tells whether it has been down until now.
local function read_downtimes()
  local p = redis.call('HMGET', KEYS[1], 'up', 'downs')
  up = tonumber(p[1])
  for began, ended in string.gmatch(p[2] or '', '(%d+):(%d+)') do
    downtimes[#downtimes + 1] = {tonumber(began), tonumber(ended)}
  end
  return up ~= nil and now - up > DOWN_MS
end

-- The same for a script that judges holds: one that goes on may count as well, as if it ended now.
local function expect_downtimes(counts_present)
  if read_downtimes() and (counts_present or up == 0) then
    downtimes[#downtimes + 1] = {up, now}
  end
end

-- Until when an order is held that was made at an instant, for so many milliseconds.
local function held_until(made, hold)
  local till = made + hold
  for _, downtime in ipairs(downtimes) do
    local began = math.max(downtime[1], made)
    if began < till then
      till = till + math.max(downtime[2] - began, 0)
    end
  end
  return till
end
