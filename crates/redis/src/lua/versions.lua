-- The versions of campaigns or their parts. Only reads.
-- KEYS the campaigns
-- ARGV none
-- Replies: the versions, empty where there is none
local versions = {}
for n, key in ipairs(KEYS) do
  versions[n] = redis.call('HGET', key, 'version') or ''
end
return versions
