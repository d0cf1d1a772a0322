-- A writer goes on reading; who waited to upgrade does not any more.
clock()
local is_writer = call('GET', write) == me
if is_writer then
  call('DEL', write)
  call('SADD', read, me)
else
  call('LREM', writers, 1, '^' .. me)
  if call('SISMEMBER', read, me) == 0 then return 0 end
end
extend()
hand_on(is_writer)
return 1
