if call('GET', write) ~= me then return 0 end
call('DEL', write)
call('ZREM', ends, me)
hand_on(true)
return 1
