-- Claims one share from a list (the articles' tryGetHongBao).
-- KEYS[1] list of the remaining shares, as JSON
-- KEYS[2] list of the claimed shares, as JSON with the user
-- KEYS[3] hash of the users that have a share
-- KEYS[4] the user; no key, but the articles pass it as one
-- ARGV none
-- Replies: the share as JSON; nil if the user has a share or none is left
if redis.call('hexists', KEYS[3], KEYS[4]) ~= 0 then
  return nil
else
  local share = redis.call('rpop', KEYS[1])
  if share then
    local x = cjson.decode(share)
    x['userId'] = KEYS[4]
    local re = cjson.encode(x)
    redis.call('hset', KEYS[3], KEYS[4], KEYS[4])
    redis.call('lpush', KEYS[2], re)
    return re
  end
end
return nil
