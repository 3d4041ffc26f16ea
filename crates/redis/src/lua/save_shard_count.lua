-- Records the number of shards of a campaign before the first shard opens. The first node that opens the campaign
-- decides it.
-- Records nothing for a campaign that is here, whose hash has the number, or that may have been evicted.
-- KEYS as in prelude.lua
-- ARGV[1..8] as in reject_reopen.lua, ARGV[9] the number of shards
-- Replies: {"ok", parts}
redis.call('SET', KEYS[16], ARGV[9], 'NX')
return {'ok', redis.call('GET', KEYS[16])}
