-- Opens campaigns that are not spread, with all their shares. Each is opened or skipped independently. A campaign that
-- is open already does not change.
-- KEYS[1..12] as in prelude.lua, KEYS[13..] of each campaign: campaign, shares, sums, plan
-- ARGV[1..6] as in prelude.lua, ARGV[7..] of each campaign: its id, its creation time in milliseconds, the numbers of
-- its sums, shares and fields, then index and sum of each sum, the shares, and the fields with their values
-- Replies: {"ok", words}, one word per campaign: `new`; `here`; `left` if only the ledger knows whether it was here,
-- see reject_reopen.lua; `plan` if another node has begun to spread it; `gap` if only some of its shares are in place
-- luacheck: read globals append now damaged has_due schedule skip_numbers
local OWN_KEYS, OWN_ARGV = 12, 6
local left = redis.call('HMGET', KEYS[1], 'left', 'left_created')
local left_upto, left_created = tonumber(left[1] or 0), tonumber(left[2] or 0)

local all, words, seen = {}, {}, {}
local key, at = OWN_KEYS + 1, OWN_ARGV + 1
while ARGV[at] do
  local sums, shares, fields = 2 * tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), 2 * tonumber(ARGV[at + 4])
  local it = {id = ARGV[at], campaign = KEYS[key], shares = KEYS[key + 1], sums = KEYS[key + 2], plan = KEYS[key + 3],
    sums_at = at + 5, shares_at = at + 5 + sums, fields_at = at + 5 + sums + shares}
  it.next_at = it.fields_at + fields
  local plan, length = redis.call('GET', it.plan), redis.call('LLEN', it.shares)
  if seen[it.id] or redis.call('EXISTS', it.campaign) == 1 then
    it.word = 'here'
  elseif has_due(it.id) or redis.call('HGET', KEYS[1], 'damaged:' .. it.id) then
    -- It was open, and its hash is gone.
    damaged('campaign', it.id)
    it.word = 'here'
  elseif left_upto > 0 and tonumber(ARGV[at + 1]) <= left_created then
    it.word = 'left'
  elseif plan and plan ~= '1' then
    it.word = 'plan'
  elseif length > 0 and length ~= shares then
    it.word = 'gap'
  else
    it.word, it.has_shares = 'new', length > 0
  end
  seen[it.id] = true
  all[#all + 1], words[#words + 1] = it, it.word
  key, at = key + 4, it.next_at
end

for _, it in ipairs(all) do
  if it.word == 'new' then
    redis.call('SET', it.plan, '1')
    if it.shares_at < it.fields_at and not it.has_shares then
      if it.sums_at < it.shares_at then
        redis.call('HSET', it.sums, unpack(ARGV, it.sums_at, it.shares_at - 1))
      end
      redis.call('RPUSH', it.shares, unpack(ARGV, it.shares_at, it.fields_at - 1))
    end
    redis.call('HSET', it.campaign, unpack(ARGV, it.fields_at, it.next_at - 1))
    skip_numbers(it.id, it.campaign)
    append(1, now, 'e', 'opened 1', it.id)
    schedule(KEYS[1], KEYS[4], it.id, redis.call('HGET', it.campaign, 'ends'))
  end
end
return {'ok', table.concat(words, ' ')}
