--- Sequential: modules one after the other, named "1", "2", ... A Linear followed by an activation that the product can
--- apply itself (relu, leaky_relu, sigmoid, tanh) runs as one operator.
local Module = require "ltrain.nn.module"
local bridge = require "ltrain.ffi"
local Linear = require "ltrain.nn.linear"

local Sequential = Module.class "Sequential"

---@param ... table modules, or one list of them
function Sequential:init(...)
  local list = { ... }
  if #list == 1 and not Module.is_module(list[1]) then list = list[1] end
  if #list == 0 then bridge.raise "Sequential: it needs at least one module" end
  for i, module in ipairs(list) do
    if not Module.is_module(module) then bridge.raise(("Sequential: element %d is a %s; it must be a module"):format(i, type(module))) end
    self[tostring(i)] = module
    rawset(self, i, module) -- net[1] as well
  end
  self.n = #list
end

function Sequential:forward(x)
  local i, n = 1, self.n
  while i <= n do
    local module = self[tostring(i)]
    local after = i < n and self[tostring(i + 1)] or nil
    local fused = after and getmetatable(module) == Linear and module.activation == "none" and rawget(getmetatable(after), "fused")
    if fused then
      x = module(x, fused)
      i = i + 2
    else
      x = module(x)
      i = i + 1
    end
  end
  return x
end

---The i-th module.
function Sequential:get(i) return self[tostring(i)] end

return Sequential
