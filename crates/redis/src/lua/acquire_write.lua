tidy()
extend()
local holder = call('GET', write)
if not holder and call('EXISTS', read, writers, readers) > 0 then
  -- Somebody by hand may have left.
  serve(false)
  holder = call('GET', write) or call('EXISTS', read, writers, readers) > 0
end
if holder and holder ~= me then
  call('ZADD', writers, 'NX', whole(now), me)
  if call('ZRANK', writers, me) == 0 then want('w') end
  return {0, next_end(), '-', before()}
end
call('SET', write, me)
return {1, token('w'), wanted()}
