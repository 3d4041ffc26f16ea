-- Notes over how many parts a campaign is spread, before the first of them opens: as the first node that opens it says.
-- Nothing is noted of a campaign that is here, whose hash says it, nor of one that may have left.
-- KEYS as in prelude.lua
-- ARGV[1..8] as in reject_reopen.lua, ARGV[9] over how many
-- Replies: {"ok", parts}
redis.call('SET', KEYS[16], ARGV[9], 'NX')
return {'ok', redis.call('GET', KEYS[16])}
