call('ZREM', ends, me)
if call('SREM', read, me) == 0 then return 0 end
hand_on(false)
return 1
