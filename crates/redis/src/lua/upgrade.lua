-- A reader becomes the writer, now or when it is alone.
tidy()
local is, id = held()
if not is then return {-1, 0, '-'} end
local place = '^' .. me
extend()
if is == 'w' then
  call('SET', write, me)
  shed()
else
  if id ~= me then call('SADD', read, me) end
  shed()
  if id ~= me then
    local _, upgrader = first_writer()
    if upgrader then return {-2, 0, '-'} end
  elseif not call('ZSCORE', writers, place) then
    -- It was refused before.
    return {-2, 0, '-'}
  end
  if call('SCARD', read) > 1 then
    call('ZADD', writers, 0, place)
    want('w')
    return {0, next_end(), '-', 0}
  end
  call('ZREM', writers, place)
  call('SREM', read, me)
  call('SET', write, me)
end
return {1, token('w'), wanted()}
