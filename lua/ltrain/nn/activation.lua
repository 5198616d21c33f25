--- Activations as modules: nn.ReLU(), nn.GELU(), ... Each calls the operator of its name; see help(lt.relu) and so on.
local Module = require "ltrain.nn.module"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"

-- class, operator, names of its numbers in order, fused with a Linear in front as
local LIST = {
  { "ReLU", "relu", {}, "relu" }, { "Sigmoid", "sigmoid", {}, "sigmoid" }, { "Tanh", "tanh", {}, "tanh" },
  { "GELU", "gelu", {} }, { "SiLU", "silu", {} }, { "Mish", "mish", {} }, { "SELU", "selu", {} },
  { "LeakyReLU", "leaky_relu", { "slope" } }, { "ELU", "elu", { "alpha" } }, { "Softplus", "softplus", { "beta" } },
  { "Hardtanh", "hardtanh", { "low", "high" } }, { "Hardsigmoid", "hardsigmoid", {} }, { "Hardswish", "hardswish", {} },
  { "LogSigmoid", "logsigmoid", {} }, { "Softmax", "softmax", { "dim" } }, { "LogSoftmax", "log_softmax", { "dim" } },
}

local M = {}
for _, entry in ipairs(LIST) do
  local class_name, operator, names, fused = entry[1], entry[2], entry[3], entry[4]
  local class = Module.class(class_name)
  class.fused = fused
  function class:init(options)
    if type(options) == "number" then options = { [names[1] or "?"] = options } end
    self.options = bridge.options(class_name, options, names)
  end
  function class:forward(x)
    if next(self.options) == nil then return op.functions[operator](x) end
    return op.functions[operator](x, self.options)
  end
  M[class_name] = class
end

---An activation module by the operator's name ("relu").
function M.by_name(name)
  local names = {}
  for _, entry in ipairs(LIST) do
    if entry[2] == name then return M[entry[1]]() end
    names[#names + 1] = entry[2]
  end
  bridge.raise(("activation: there is no '%s'%s; there are %s"):format(tostring(name), bridge.suggest(name, names), table.concat(names, ", ")))
end

return M
