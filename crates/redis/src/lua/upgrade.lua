-- A reader becomes the writer, now or when it is alone.
tidy()
if call('GET', write) ~= me then
  if call('SISMEMBER', read, me) == 0 then return {-1, 0, '-'} end
  local place = '^' .. me
  local _, upgrader = first_writer()
  if upgrader and upgrader ~= me then return {-2, 0, '-'} end
  extend()
  if call('SCARD', read) > 1 then
    call('ZADD', writers, 0, place)
    want('w')
    return {0, next_end(), '-'}
  end
  call('ZREM', writers, place)
  call('SREM', read, me)
  call('SET', write, me)
else
  extend()
end
return {1, token('w'), wanted()}
