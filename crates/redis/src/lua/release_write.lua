call('ZREM', ends, me)
if call('GET', write) ~= me then return 0 end
call('DEL', write)
hand_on(true)
return 1
