-- A writer goes on reading; who waited to upgrade does not any more. Tells whether a writer waits.
clock()
local is_writer = call('GET', write) == me
-- Removing something first is allowed when Redis has no memory left, and then so is the rest.
local was_first = call('ZREM', writers, '^' .. me) == 1
if is_writer then
  extend()
  call('SADD', read, me)
  call('DEL', write)
else
  if call('SISMEMBER', read, me) == 0 then return 0 end
  extend()
end
hand_on(is_writer)
if was_first then unwant() end
return 1 + call('EXISTS', writers)
