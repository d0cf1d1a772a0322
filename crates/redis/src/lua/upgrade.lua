-- A reader becomes the writer, now or when it is alone.
tidy()
local place = '^' .. me
local first = call('LINDEX', writers, 0)
if call('GET', write) ~= me then
  if call('SISMEMBER', read, me) == 0 then return {-1, 0, '-'} end
  if first and first ~= place and string.sub(first, 1, 1) == '^'
    and call('SISMEMBER', read, string.sub(first, 2)) == 1 then
    return {-2, 0, '-'}
  end
  if call('SCARD', read) > 1 then
    if first ~= place then call('LPUSH', writers, place) end
    extend()
    want('w')
    return {0, next_end(), '-'}
  end
  if first == place then call('LPOP', writers) end
  call('SREM', read, me)
  call('SET', write, me)
end
extend()
return {1, token('w'), wanted()}
