--- Linear: y = x W^T + b over the last dim; W is [out, in]. The activation may be fused into the product.
local Module = require "ltrain.nn.module"
local initializer = require "ltrain.nn.initializer"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local f = op.functions

local Linear = Module.class "Linear"

---@param n_in integer
---@param n_out integer
---@param options table|nil { bias = true, activation = "none", init = PyTorch's uniform(+-1/sqrt(n_in)), bias_init = the same }
function Linear:init(n_in, n_out, options)
  options = bridge.options("Linear", options, { "bias", "activation", "init", "bias_init", "dtype" })
  local function size(n) return type(n) == "number" and n >= 1 and n == math.floor(n) end
  if not size(n_in) or not size(n_out) then
    bridge.raise(("Linear: sizes are %s -> %s; both must be whole numbers of at least 1"):format(tostring(n_in), tostring(n_out)))
  end
  self.n_in, self.n_out, self.activation = n_in, n_out, options.activation or "none"
  local bound = 1 / math.sqrt(n_in)
  local weight = f.empty({ n_out, n_in }, options.dtype or "float32")
  initializer.apply(weight, options.init or { "uniform", -bound, bound })
  self.weight = Module.Parameter(weight)
  if options.bias ~= false then
    local bias = f.empty({ n_out }, options.dtype or "float32")
    initializer.apply(bias, options.bias_init or { "uniform", -bound, bound })
    self.bias = Module.Parameter(bias)
  end
end

---@param x userdata [..., n_in]
---@param activation string|nil one that Sequential found behind this module
function Linear:forward(x, activation)
  return f.linear(x, self.weight, rawget(self, "bias"), activation or self.activation)
end

function Linear:extra_text()
  return ("%d -> %d%s"):format(self.n_in, self.n_out, self.activation ~= "none" and ", " .. self.activation or "")
end

return Linear
