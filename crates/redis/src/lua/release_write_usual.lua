-- No reader waits, and the first writer in line, if there is one, is alive: few commands, each of
-- which costs Redis some microseconds, and nothing of what follows.
if #ARGV == 3 and call('GET', write) == me and call('EXISTS', readers) == 0 then
  local line = call('ZRANGE', writers, 0, 1)
  local next, time = line[1]
  if not next then
    call('DEL', write)
    call('ZREM', ends, me)
    return 1
  end
  local node, count = string.match(next, '^[^^].*:(%x+):(%d+)$')
  if node then
    time = call('TIME')
    local micros = time[1] * 1000000 + time[2]
    if (tonumber(call('ZSCORE', ends, next)) or 0) > micros then
      -- Removing something first is allowed when Redis has no memory left, and then so is the rest.
      call('ZREM', writers, next)
      call('SET', write, next)
      call('ZREM', ends, me)
      local last = call('GETSET', fence, string.format('%.0f', micros))
      if last and tonumber(last) >= micros then
        micros = last + 1
        call('SET', fence, string.format('%.0f', micros))
      end
      local said = string.format('g w %.0f %s %s %s', micros, line[2] and 'w' or '-', count, record)
      redis.pcall('PUBLISH', 'lockspan:' .. node, said)
      return 1
    end
  end
end
