-- A writer goes on reading; who waited to upgrade does not any more. Tells whether a writer waits.
clock()
pry()
local is, id = held()
if not is then return 0 end
extend()
if id ~= me then call('SADD', read, me) end
local was = shed()
if was ~= '' then
  hand_on(was == 'w')
  if was == 'r' then unwant() end
end
return 1 + call('EXISTS', writers)
