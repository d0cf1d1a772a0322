-- Who holds the record, for people. The nodes of the holders are asked to tell us more.
-- Returns how many are served before us, then the other holders, each with its mode before it.
local holders = {before()}
local function see(id, mode)
  if #holders > 8 or id == me then return end
  holders[#holders + 1] = mode .. id
  tell(id, 'a ' .. me)
end
local writer = call('GET', write)
if writer then see(writer, 'w') end
-- Of very many readers none is asked.
if call('SCARD', read) <= 64 then
  for _, id in ipairs(call('SMEMBERS', read)) do see(id, 'r') end
end
return holders
