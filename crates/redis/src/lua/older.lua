-- Finds an older value of a hash of buyers or orders. Their rows change in place, so it may have as many rows.
-- KEYS none of its own
-- ARGV none of its own
-- Replies: none of its own
-- luacheck: ignore 211

-- Whether a hash lacks the row that was written last, so that its value is an older one. `newest` is the row's field, a
-- newline and the row, as the campaign's hash has them.
local function is_older(key, newest)
  local field, row = string.match(newest, '^([^\n]*)\n(.*)$')
  return redis.call('HGET', key, field) ~= row
end
