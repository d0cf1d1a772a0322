if call('SREM', read, me) == 0 then return 0 end
call('ZREM', ends, me)
hand_on(false)
return 1
