clock()
local is, id = held()
if not is then
  local waits = call('SISMEMBER', readers, me) == 1 or call('ZSCORE', writers, me)
  is, id = waits and 'q' or '', me
end
if is ~= '' then
  pry()
  extend(id)
end
return is
