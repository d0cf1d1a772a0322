-- Whatever became of our acquire, it is over.
local was = remove(me)
hand_on(was == 'w')
if was == 'q' then unwant() end
return was == '' and 0 or 1
