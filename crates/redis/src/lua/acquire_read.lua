tidy()
extend()
if call('EXISTS', write, writers, readers) > 0 then
  -- Somebody by hand may have left.
  serve(false)
  if call('SISMEMBER', read, me) == 0 and call('EXISTS', write, writers) > 0 then
    call('SADD', readers, me)
    if call('EXISTS', writers) == 0 then want('r') end
    return {0, next_end(), '-', before()}
  end
end
call('SADD', read, me)
return {1, token('r'), call('EXISTS', writers) == 1 and 'w' or '-'}
