--- The generator's seed: the same seed gives the same numbers on every device and for every number of threads.
local bridge = require "ltrain.ffi"
local M = {}

---Starts the generator anew.
---@param seed integer
function M.manual_seed(seed)
  if type(seed) ~= "number" or seed ~= math.floor(seed) or math.abs(seed) > 2 ^ 53 then
    bridge.raise(("manual_seed: the seed must be a whole number, got %s"):format(tostring(seed)))
  end
  bridge.C.lt_manual_seed(seed)
end

return M
