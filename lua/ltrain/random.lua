--- The random generator's state: a seed and the number of random calls since it was set. The same state gives the same
--- numbers on every device and for every number of threads. Before anything is set the seed is 0.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local M = {}

local function whole(where, name, v)
  if type(v) ~= "number" or v ~= math.floor(v) or math.abs(v) > 2 ^ 53 then
    bridge.raise(("%s: the %s must be a whole number, got %s"):format(where, name, tostring(v)))
  end
end

---Starts the generator anew.
---@param seed integer
function M.manual_seed(seed)
  whole("manual_seed", "seed", seed)
  bridge.C.lt_manual_seed(seed)
end

---Where the generator is; lt.set_random_state(seed, call) goes back there.
---@return integer seed
---@return integer call random calls since the seed was set
function M.state()
  local state = ffi.new "int64_t[2]"
  bridge.C.lt_random_state(state, state + 1)
  return tonumber(state[0]), tonumber(state[1])
end

---Puts the generator where lt.random_state() said it was.
---@param seed integer
---@param call integer
function M.set_state(seed, call)
  whole("set_random_state", "seed", seed)
  whole("set_random_state", "call", call)
  bridge.C.lt_set_random_state(seed, call)
end

return M
