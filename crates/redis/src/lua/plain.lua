-- The two keys alone: no ends, no line, no tokens.
-- KEYS 1 readlock 2 writelock; ARGV 1 our identifier 2 what to do
local read, write = KEYS[1], KEYS[2]
local me, what = ARGV[1], ARGV[2]
local call = redis.call
local writer = call('GET', write)
local reads = call('SISMEMBER', read, me) == 1
if what == 'read' then
  if writer then return {0, -1, '-'} end
  call('SADD', read, me)
  return {1, 0, '-'}
elseif what == 'write' then
  if writer ~= me then
    if writer or call('EXISTS', read) == 1 then return {0, -1, '-'} end
    call('SET', write, me)
  end
  return {1, 0, '-'}
elseif what == 'upgrade' then
  if writer == me then return {1, 0, '-'} end
  if not reads then return {-1, 0, '-'} end
  if call('SCARD', read) > 1 then return {-2, 0, '-'} end
  call('SREM', read, me)
  call('SET', write, me)
  return {1, 0, '-'}
elseif what == 'downgrade' then
  if writer == me then
    call('DEL', write)
    call('SADD', read, me)
    reads = true
  end
  return reads and 1 or 0
elseif what == 'renew' then
  return reads and 'r' or writer == me and 'w' or ''
end
if writer == me then return call('DEL', write) end
return call('SREM', read, me)
