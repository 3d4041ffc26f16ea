-- Downtimes of a partition. Holds pause while no node serves the partition, because no user could pay. Serving nodes
-- report this repeatedly by record_uptime.lua; a long gap between two reports is a downtime.
-- Sets `up`, the time of the last report, and `downtimes`, once they are read. `up` is 0 if the recorded downtimes are
-- lost.
-- KEYS as in prelude.lua
-- ARGV as in prelude.lua
-- Replies: nothing of its own
-- luacheck: read globals now
-- luacheck: ignore 211
local DOWN_MS = 5000
local up, downtimes = nil, {}

-- Reads both. True if the partition has been down until now.
local function read_downtimes()
  local p = redis.call('HMGET', KEYS[1], 'up', 'downs')
  up = tonumber(p[1])
  for began, ended in string.gmatch(p[2] or '', '(%d+):(%d+)') do
    downtimes[#downtimes + 1] = {tonumber(began), tonumber(ended)}
  end
  return up ~= nil and now - up > DOWN_MS
end

-- Reads both, for a script that judges holds. A downtime that has not ended may count too, as if it ended now.
local function expect_downtimes(counts_present)
  if read_downtimes() and (counts_present or up == 0) then
    downtimes[#downtimes + 1] = {up, now}
  end
end

-- End of the hold of an order made at `made`, after `hold` milliseconds and all downtimes within.
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
