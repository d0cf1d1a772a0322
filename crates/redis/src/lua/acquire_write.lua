tidy()
if call('EXISTS', read, write, writers, readers) > 0 then
  -- Somebody by hand may have left.
  serve(false)
  local holder = call('GET', write)
  if holder ~= me and (holder or call('EXISTS', read, writers, readers) > 0) then
    if not call('ZSCORE', ends, me) or call('EXISTS', writers) == 0 then
      call('RPUSH', writers, me)
    end
    extend()
    if call('LINDEX', writers, 0) == me then want('w') end
    return {0, next_end(), '-'}
  end
end
call('SET', write, me)
extend()
return {1, token('w'), wanted()}
