-- The two keys alone: no ends, no line, no tokens.
-- KEYS 1 readlock 2 writelock
-- ARGV 1 our identifier 2 what to do 3 and more: what we may still have instead of it
local read, write = KEYS[1], KEYS[2]
local me, what = ARGV[1], ARGV[2]
local call = redis.call
local writer = call('GET', write)
if what == 'read' then
  if writer then return {0, -1, '-'} end
  call('SADD', read, me)
  return {1, 0, '-'}
elseif what == 'write' then
  if writer ~= me and (writer or call('EXISTS', read) == 1) then return {0, -1, '-'} end
  call('SET', write, me)
  return {1, 0, '-'}
elseif what == 'release' then
  local was = 0
  for place = 1, #ARGV do
    if place ~= 2 then
      was = was + call('SREM', read, ARGV[place])
      if writer == ARGV[place] then was = was + call('DEL', write) end
    end
  end
  return was
end
local is, id
for place = 1, #ARGV do
  if place ~= 2 and not is then
    id = ARGV[place]
    is = writer == id and 'w' or call('SISMEMBER', read, id) == 1 and 'r' or nil
  end
end
if what == 'renew' then
  return is or ''
elseif what == 'downgrade' then
  if not is then return 0 end
  if id ~= me then
    if is == 'w' then call('DEL', write) else call('SREM', read, id) end
    call('SADD', read, me)
  end
  return 1
end
if not is then return {-1, 0, '-'} end
if is == 'r' then
  -- Also who is refused has a new identifier, so that it stays refused.
  if id == me then return {-2, 0, '-'} end
  call('SREM', read, id)
  if call('EXISTS', read) == 1 then
    call('SADD', read, me)
    return {-2, 0, '-'}
  end
end
call('SET', write, me)
return {1, 0, '-'}
