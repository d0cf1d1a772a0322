clock()
local is = ''
if call('SISMEMBER', read, me) == 1 then
  is = 'r'
elseif call('GET', write) == me then
  is = 'w'
elseif call('SISMEMBER', readers, me) == 1 or call('ZSCORE', writers, me) then
  is = 'q'
end
if is ~= '' then
  -- Removing it first is allowed when Redis has no memory left, and then so is adding it.
  call('ZREM', ends, me)
  extend()
end
return is
