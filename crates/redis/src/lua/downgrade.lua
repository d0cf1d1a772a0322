-- A writer goes on reading; who waited to upgrade does not any more. Tells whether a writer waits.
clock()
local is_writer = call('GET', write) == me
local was_first = false
if is_writer then
  call('DEL', write)
  call('SADD', read, me)
else
  was_first = call('LREM', writers, 1, '^' .. me) == 1
  if call('SISMEMBER', read, me) == 0 then return 0 end
end
extend()
hand_on(is_writer)
if was_first then unwant() end
return 1 + call('EXISTS', writers)
