-- Reads the versions of campaigns or their shards.
-- KEYS the campaigns
-- ARGV none
-- Replies: the versions, empty for a campaign that is absent
local versions = {}
for n, key in ipairs(KEYS) do
  versions[n] = redis.call('HGET', key, 'version') or ''
end
return versions
