-- Nobody has the record, or a writer has it and nobody's end has come: few commands, each of which
-- costs Redis some microseconds, and nothing of what follows.
do
  local time = call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local holder = call('GET', write)
  if holder and holder ~= me then
    local first = call('ZRANGE', ends, 0, 0, 'WITHSCORES')
    local wait = (tonumber(first[2]) or 0) - micros
    if wait > 0 then
      call('ZADD', ends, string.format('%.0f', micros + lease), me)
      call('ZADD', writers, 'NX', string.format('%.0f', micros), me)
      local rank = call('ZRANK', writers, me)
      if rank > 0 then return {0, wait, '-', rank + call('SCARD', readers)} end
    end
  elseif not holder and call('EXISTS', read, ends, writers, readers) == 0 then
    call('ZADD', ends, string.format('%.0f', micros + lease), me)
    call('SET', write, me)
    local last = call('GETSET', fence, string.format('%.0f', micros))
    if last and tonumber(last) >= micros then
      micros = last + 1
      call('SET', fence, string.format('%.0f', micros))
    end
    return {1, micros, '-'}
  end
end
