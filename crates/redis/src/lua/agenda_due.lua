-- Campaigns for which something is due.
-- KEYS[1] partition, KEYS[2] agenda
-- ARGV[1] now in milliseconds, ARGV[2] how many are passed over, ARGV[3] how many at most
-- Replies: "1", or "0" if the agenda must be rebuilt; then the campaigns
-- luacheck: read globals agenda_lag
local due = redis.pcall('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', ARGV[2], ARGV[3])
if due.err then
  due = {}
end
table.insert(due, 1, agenda_lag(KEYS[1], KEYS[2]) == 0 and '1' or '0')
return due
