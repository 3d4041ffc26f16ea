-- Presence call: reports that a node is alive and what it has observed.
--
-- Begins a new term if this server is not the primary of the current term. Opens the term once every node that was
-- alive has reported what it observed in earlier terms, or once the grace has passed. If a node observed entries that
-- the log lacks, entries were lost and the partition halts. No other script opens or halts a partition automatically.
-- Decision 0008 has the reasons.
-- A key of another type is removed: a partition without its hash halts.
-- KEYS[1] partition, KEYS[2] nodes
-- ARGV[1] node, ARGV[2..4] the term that the node knows: epoch, number, server; empty, 0, empty if it knows none,
-- ARGV[5..8] the term in which it observed what it reports: epoch, number, server, beginning; an empty epoch for the
-- term that it knows,
-- ARGV[9] the last entry that the node has observed, ARGV[10] the ledger's position of the partition,
-- ARGV[11] grace in milliseconds, ARGV[12] partitions, ARGV[13] epoch for a new state, empty if none may be created,
-- ARGV[14] milliseconds for which the node has found only earlier terms at the primary's address. After the grace, a
-- new term begins on this server. On a halted server a new term begins after half the grace and does not open: a repair
-- needs the nodes' reports and stored answers first
-- ARGV[15] installation, empty if it does not matter; ARGV[16] the engine that its ledger belongs to; ARGV[17] is 1 if
-- this call may mark the partition as that engine's, or the replication id of the only server on which it may. Nothing
-- else happens for the ledger of another installation, or while the partition is not marked as the engine's
-- Replies: {"foreign", installation, primary}; {"mark", engine, primary}, the engine empty if the partition has no
-- mark; {"ok", epoch, term, server, began, state, head, reason, lost from, lost to, replicas, used, max, primary};
-- {"count", partitions} if Redis was set up with another number; {"replica"} if the server is no primary; {"evicts",
-- policy} if it may evict keys. `replicas` is the number of online replicas that `WAIT` can count; `used` and `max` are
-- the server's memory and its limit, 0 if there is none; `primary` is the replication id of the server that answers
local SHORT = 8 -- characters of a replication id that distinguish servers
local TERMS_MAX = 64
local ALIVE_MS, FORGOTTEN_MS = 3000, 3600000
local UNKNOWN = 4294967295 -- number of replicas, `UNKNOWN` in replicas.rs
local LOOKED_AT = 32 -- fields per call, in the search for fields of crashed processes
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return {'replica'}
end
local own = string.match(info, 'master_replid:(%x+)')
local _, replicas = string.gsub(info, 'slave%d+:[^\r\n]*state=online', '')
if not string.find(info, 'slave%d+:') then
  -- A server may hide its replicas, and even their number.
  replicas = tonumber(string.match(info, 'connected_slaves:(%d+)')) or UNKNOWN
end
for _, key in ipairs(KEYS) do
  local found = redis.pcall('HLEN', key)
  if type(found) == 'table' and string.find(found.err, 'WRONGTYPE', 1, true) then
    redis.call('UNLINK', key)
  end
end
local names = {'count', 'epoch', 'seq', 'term', 'server', 'began', 'open', 'halted', 'lost_from', 'lost_to', 'since',
  'alive_from', 'terms', 'past', 'repair_unnamed'}
local p = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
  p[names[i]] = value
end
if p.count and p.count ~= ARGV[12] then
  return {'count', p.count}
end
local marks = false
if ARGV[15] ~= '' then
  local mark = redis.call('HMGET', KEYS[1], 'installation', 'engine')
  if mark[1] and mark[1] ~= ARGV[15] then
    return {'foreign', mark[1], own}
  elseif mark[2] ~= ARGV[16] then
    if ARGV[17] ~= '1' and ARGV[17] ~= own then
      return {'mark', mark[2] or '', own}
    end
    marks = true
  end
end
local memory = redis.call('INFO', 'memory')
local used = string.match(memory, 'used_memory:(%d+)') or '0'
local max = string.match(memory, 'maxmemory:(%d+)') or '0'
local policy = string.match(memory, 'maxmemory_policy:(%S+)')
if policy and policy ~= 'noeviction' then
  -- The partition grants nothing until the policy is corrected. Keys may be lost by then, so the next call begins a new
  -- term.
  if p.open then
    redis.call('HDEL', KEYS[1], 'open', 'server')
  end
  return {'evicts', policy}
end
if marks then
  redis.call('HSET', KEYS[1], 'installation', ARGV[15], 'engine', ARGV[16])
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = {epoch = ARGV[2], number = tonumber(ARGV[3]), server = ARGV[4]}
local before = {epoch = ARGV[5], number = tonumber(ARGV[6]), server = ARGV[7], began = tonumber(ARGV[8])}
local observed, settled = tonumber(ARGV[9]), tonumber(ARGV[10])
local grace, stale = tonumber(ARGV[11]), tonumber(ARGV[14])

local function int(value)
  return string.format('%.0f', value)
end

local function put(field, value)
  p[field] = value
  redis.call('HSET', KEYS[1], field, type(value) == 'number' and int(value) or value)
end

local function drop(...)
  for _, field in ipairs({...}) do
    p[field] = false
  end
  redis.call('HDEL', KEYS[1], ...)
end

-- Looks up an epoch that this one continues: the last entry for which its repair accounts, or `?` until the repair.
local function continues(epoch)
  return string.match(' ' .. (p.past or '') .. ' ', ' ' .. epoch .. ':([%d?]+) ')
end

local function halt(reason, from, to)
  put('lost_from', math.min(from, tonumber(p.lost_from) or from))
  put('lost_to', math.max(to, tonumber(p.lost_to) or to))
  put('halted', reason
    or 'Redis has lost the entries ' .. int(p.lost_from) .. ' to ' .. int(p.lost_to) .. ' of the log')
  for _, epoch in ipairs({known.epoch, before.epoch}) do
    if epoch ~= '' and epoch ~= p.epoch and not continues(epoch) then
      put('past', (p.past and p.past .. ' ' or '') .. epoch .. ':?')
    end
  end
  drop('open', 'since', 'alive_from')
end

local function short()
  return string.sub(p.server or '', 1, SHORT)
end

-- Begins a term on this server.
local function begin(number, newest)
  local terms = {}
  for term in string.gmatch(p.terms or '', '%S+') do
    terms[#terms + 1] = term
  end
  if #terms >= TERMS_MAX then
    -- A node that knows no later term then counts as one that observed a loss.
    table.remove(terms, 1)
  end
  put('term', number)
  put('server', own)
  put('began', p.seq)
  terms[#terms + 1] = table.concat({int(number), p.began, short()}, ':')
  put('terms', table.concat(terms, ' '))
  drop('open')
  put('since', now)
  put('alive_from', newest - ALIVE_MS)
end

local function open()
  put('open', table.concat({p.epoch, int(p.term), short()}, '.'))
  drop('since', 'alive_from')
end

-- Last entry up to which the log still is what the node observed.
local function limit()
  local last = tonumber(p.seq)
  if before.epoch == '' then
    return last
  elseif before.epoch ~= p.epoch then
    return tonumber(continues(before.epoch)) or 0
  end
  local found = false
  for number, began, server in string.gmatch(p.terms or '', '(%d+):(%d+):(%x+)') do
    number = tonumber(number)
    found = found or number == before.number and server == before.server
    if number > before.number then
      last = math.min(last, tonumber(began))
    end
  end
  -- A term outside this history ended where it began.
  return found and last or math.min(last, before.began)
end

-- Removes fields of crashed processes. Each call examines a few random fields, and removes old ones. A clock that jumps
-- makes all fields old. So a field is removed an hour after it was found to be old. Nodes that are alive write their
-- fields again before that.
local function forget_some()
  local some = redis.call('HRANDFIELD', KEYS[2], LOOKED_AT, 'WITHVALUES')
  for i = 1, #some, 2 do
    local entry, found = string.match(some[i + 1], '^(%d+ %d+ %d+) ?(%d*)$')
    local age = now - tonumber(string.match(entry or '0', '^%d+'))
    found = tonumber(found)
    if math.abs(age) > FORGOTTEN_MS then
      if found and now - found > FORGOTTEN_MS then
        redis.call('HDEL', KEYS[2], some[i])
      elseif not found or found > now then
        redis.call('HSET', KEYS[2], some[i], (entry or '0 0 0') .. ' ' .. int(now))
      end
    end
  end
  -- The same for call numbers of nodes that left or were removed: their packets may be in flight for a while.
  some = redis.call('HRANDFIELD', KEYS[1], LOOKED_AT, 'WITHVALUES')
  for i = 1, #some, 2 do
    local node = string.match(some[i], '^call:([^:]*)')
    if node and not redis.call('HGET', KEYS[2], node) then
      local number, at = string.match(some[i + 1], '^(%d+) (%d+)$')
      at = tonumber(at)
      if not at or now - at > FORGOTTEN_MS then
        redis.call('HDEL', KEYS[1], some[i])
      elseif at > now then
        redis.call('HSET', KEYS[1], some[i], number .. ' ' .. int(now))
      end
    end
  end
end

local function reply()
  local state = p.halted and 'halted' or p.open and 'open' or 'gathering'
  local text = {'ok'}
  for _, value in ipairs({p.epoch or '', p.term or 0, short(), p.began or 0, state, p.seq or 0, p.halted or '',
    p.lost_from or '', p.lost_to or '', replicas, used, max, own}) do
    text[#text + 1] = type(value) == 'number' and int(value) or value
  end
  return text
end

p.term = tonumber(p.term) or 0
if p.halted and p.repair_unnamed then
  -- A repair has begun. It moves the ledger's position past all lost entries, and has read that position before. So the
  -- ledger's position proves no further loss until the repair ends.
  settled = 0
end
if not p.epoch then
  put('count', ARGV[12])
  if p.halted or ARGV[13] == '' or known.epoch ~= '' or observed + settled > 0 then
    put('term', math.max(p.term, known.number))
    halt('Redis has lost the state of this partition: it has none, and a node or the ledger had one', 1,
      math.max(1, observed, settled))
    return reply()
  end
  put('epoch', ARGV[13])
  put('seq', '0')
  put('ledger_position', '0')
  begin(1, now)
  open()
end

local knows = known.epoch == p.epoch and known.number == p.term
-- Two servers may have begun terms with the same number.
local conflict = knows and known.server ~= short()
local nodes, newest = {}, 0
-- While a term runs on its server, no node is awaited, so the other nodes need not be read.
if p.halted or not p.open or p.server ~= own or conflict or stale > 0 then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local seen, term = string.match(all[i + 1], '^(%d+) (%d+)')
    nodes[all[i]] = {seen = tonumber(seen), term = tonumber(term)}
    newest = math.max(newest, tonumber(seen))
  end
end
if p.halted and known.number > p.term and stale > 0 and stale >= grace / 2 then
  begin(known.number + 1, newest)
  drop('since', 'alive_from')
elseif not p.halted and (p.server ~= own or conflict or stale > 0 and stale >= grace) then
  begin(math.max(p.term, known.number) + 1, newest)
  for name, node in pairs(nodes) do
    if node.seen < newest - FORGOTTEN_MS then
      redis.call('HDEL', KEYS[2], name)
      nodes[name] = nil
    end
  end
  knows = false
end
if knows then
  local last = limit()
  if observed > last then
    halt(nil, last + 1, observed)
  end
  -- The ledger has no entry of a term before that term opens.
  last = tonumber((p.open or p.halted) and p.seq or p.began)
  if settled > last then
    halt(nil, last + 1, settled)
  end
end
-- The clock of a new primary may lag.
local this = {seen = math.max(now, p.open and 0 or newest), term = knows and p.term or 0}
nodes[ARGV[1]] = this
redis.call('HSET', KEYS[2], ARGV[1], table.concat({int(this.seen), int(this.term), int(observed)}, ' '))

if not p.halted and not p.open then
  if (tonumber(p.since) or now + 1) > now then
    put('since', now)
  end
  local awaited, alive_from = false, tonumber(p.alive_from) or newest - ALIVE_MS
  for _, node in pairs(nodes) do
    awaited = awaited or node.term ~= p.term and node.seen >= alive_from
  end
  if not awaited or now - tonumber(p.since) >= grace then
    open()
  end
end
if p.open then
  forget_some()
end
return reply()
