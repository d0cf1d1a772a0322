-- What the scripts share.

local function clock()
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function whole(number)
  return string.format('%.0f', number)
end

-- The next token for a writer, the last one for a reader. It rises with each writer, and is never
-- below the clock, so that it also rises when a fail-over has lost the last ones.
local function token(mode)
  local last = tonumber(call('GET', fence) or 0)
  if mode == 'w' then
    last = math.max(last + 1, now)
    call('SET', fence, whole(last))
  elseif last == 0 then
    last = now - 1
    call('SET', fence, whole(last))
  end
  return last
end

-- An identifier, ours unless told, is good for a lease from now.
local function extend(id)
  call('ZADD', ends, whole(now + lease), id or me)
end

-- Something is removed, though nothing is there: that is allowed when Redis has no memory left, and
-- then so is the rest of the script.
local function pry()
  call('ZREM', ends, '')
end

-- How an identifier holds the record, if it does.
local function holds(id)
  if call('GET', write) == id then return 'w' end
  if call('SISMEMBER', read, id) == 1 then return 'r' end
end

-- How we hold the record, if we do, and under which identifier.
local function held()
  local is = holds(me)
  if is then return is, me end
  for place = 4, #ARGV do
    is = holds(ARGV[place])
    if is then return is, ARGV[place] end
  end
end

-- In how many microseconds the first of the others ends, as it was when we came.
local function next_end()
  return first_end and math.max(first_end - now, 0) or -1
end

-- Tells the node of an identifier. A person's has none. Who is told nothing looks for itself later.
local function tell(id, what)
  local node, count = string.match(id, ':(%x+):(%d+)$')
  if node and #node == 32 and id ~= me then
    redis.pcall('PUBLISH', 'lockspan:' .. node, what .. ' ' .. count .. ' ' .. record)
  end
end

-- What those in line want from who holds the record.
local function wanted()
  if call('EXISTS', writers) == 1 then return 'w' end
  if call('EXISTS', readers) == 1 then return 'r' end
  return '-'
end

-- Asks the holders to give the record back; '-': they may keep it.
local function want(mode)
  local what = 'w ' .. mode
  local writer = call('GET', write)
  if writer then
    tell(writer, what)
  elseif call('SCARD', read) > 64 then
    redis.pcall('PUBLISH', 'lockspan:all', what .. ' * ' .. record)
  else
    for _, id in ipairs(call('SMEMBERS', read)) do tell(id, what) end
  end
end

-- After somebody has left the line: what the holders were asked for may be wanted no more.
local function unwant()
  if call('EXISTS', writers) == 0 then want(wanted()) end
end

local function granted(id, mode, number, wish)
  tell(id, 'g ' .. mode .. ' ' .. whole(number) .. ' ' .. wish)
end

local function to_writer(id)
  call('SET', write, id)
  granted(id, 'w', token('w'), wanted())
end

-- The first writer in line, if there is one: an upgrader that reads, or one that has an end.
local function first_writer()
  while true do
    local first = call('ZRANGE', writers, 0, 0)[1]
    if not first then return end
    if string.sub(first, 1, 1) == '^' then
      local id = string.sub(first, 2)
      if call('SISMEMBER', read, id) == 1 then return first, id end
    elseif call('ZSCORE', ends, first) then
      return first
    end
    call('ZREM', writers, first)
  end
end

-- How many in line are served before us, as things are now: after readers one writer, then all
-- readers, then the other writers; after a writer all readers first. Waiting readers have no order
-- among them: they go in together, and none is counted before another.
local function before()
  local reads = call('EXISTS', read) == 1
  local rank = call('ZRANK', writers, me)
  if not rank then
    if call('ZRANK', writers, '^' .. me) then return 0 end
    return reads and call('EXISTS', writers) or 0
  end
  if reads and rank == 0 then return 0 end
  return rank + call('SCARD', readers)
end

-- Hands the record to whoever is next: an upgrader that is alone; after a writer all readers that
-- wait; else the first writer, when nobody reads; else all readers that wait.
local function serve(after_writer)
  if call('EXISTS', write) == 1 then return end
  local first, upgrader = first_writer()
  if upgrader then
    if call('SCARD', read) == 1 then
      call('ZREM', writers, first)
      call('SREM', read, upgrader)
      to_writer(upgrader)
    end
    return
  end
  local waiting = {}
  if after_writer or not first then waiting = call('SMEMBERS', readers) end
  if #waiting > 0 then
    call('DEL', readers)
    local number, wish = token('r'), first and 'w' or '-'
    local any = false
    for _, id in ipairs(waiting) do
      if call('ZSCORE', ends, id) then
        call('SADD', read, id)
        granted(id, 'r', number, wish)
        any = true
      end
    end
    if any then return end
  end
  if first and call('EXISTS', read) == 0 then
    call('ZREM', writers, first)
    to_writer(first)
  end
end

-- Removes an identifier, whatever it is here. Tells whether it held the record and how.
local function remove(id)
  local was = ''
  if call('SREM', read, id) == 1 then
    call('ZREM', writers, '^' .. id)
    was = 'r'
  end
  if call('GET', write) == id then
    call('DEL', write)
    was = 'w'
  end
  if was == '' and call('SREM', readers, id) + call('ZREM', writers, id) > 0 then was = 'q' end
  call('ZREM', ends, id)
  return was
end

-- Removes whatever identifiers we had before this one.
local function shed()
  local was = ''
  for place = 4, #ARGV do
    local what = remove(ARGV[place])
    if what ~= '' then was = what end
  end
  return was
end

-- Removes what has ended. Tells whether anything has, and whether a writer has.
local function sweep()
  local first = call('ZRANGE', ends, 0, 0, 'WITHSCORES')
  first_end = tonumber(first[2])
  if not first_end or first_end > now then return false, false end
  local ended = call('ZRANGEBYSCORE', ends, '-inf', whole(now), 'LIMIT', 0, 100)
  local writer = false
  for _, id in ipairs(ended) do
    writer = remove(id) == 'w' or writer
  end
  first_end = tonumber(call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2])
  return true, writer
end

-- After somebody has left: the next in line have their turn, but for those who are dead.
local function hand_on(after_writer)
  if call('EXISTS', writers, readers) == 0 then return end
  if not now then clock() end
  local any, writer = sweep()
  serve(after_writer or writer)
  if any then unwant() end
end

-- Before somebody comes: whoever has died is removed, and whose turn it is has it.
local function tidy()
  clock()
  local any, writer = sweep()
  if any then
    serve(writer)
    unwant()
  end
end

-- Ends what we have. Tells what it was.
local function leave()
  local was, before = remove(me), shed()
  if was == '' then was = before end
  hand_on(was == 'w')
  if was == 'q' then unwant() end
  return was
end
