--- Normalisation: LayerNorm over the last dims, BatchNorm1d over the batch of [N, C] or [N, C, L].
local Module = require "ltrain.nn.module"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local f = op.functions

local LayerNorm = Module.class "LayerNorm"

---@param shape integer|integer[] the normalised sizes, the last dims of the input
---@param options table|nil { eps = 1e-5, affine = true }
function LayerNorm:init(shape, options)
  options = bridge.options("LayerNorm", options, { "eps", "affine" })
  self.shape = type(shape) == "number" and { shape } or shape
  if type(self.shape) ~= "table" or #self.shape == 0 then
    bridge.raise(("LayerNorm: the shape is %s; it must be the size of the last dim, or a list of sizes"):format(tostring(shape)))
  end
  self.eps = options.eps or 1e-5
  if options.affine ~= false then
    self.weight = Module.Parameter(f.full(self.shape, 1))
    self.bias = Module.Parameter(f.zeros(self.shape))
  end
end

function LayerNorm:forward(x)
  local weight = rawget(self, "weight")
  if weight then return f.layer_norm(x, weight, self.bias, { eps = self.eps, dims = #self.shape }) end
  return f.layer_norm(x, { eps = self.eps, dims = #self.shape })
end

function LayerNorm:extra_text() return "[" .. table.concat(self.shape, ", ") .. "]" end

local BatchNorm1d = Module.class "BatchNorm1d"

---@param channels integer
---@param options table|nil { eps = 1e-5, momentum = 0.1, affine = true }
function BatchNorm1d:init(channels, options)
  options = bridge.options("BatchNorm1d", options, { "eps", "momentum", "affine" })
  if type(channels) ~= "number" or channels < 1 or channels ~= math.floor(channels) then
    bridge.raise(("BatchNorm1d: channels is %s; it must be a whole number of at least 1"):format(tostring(channels)))
  end
  self.channels, self.eps, self.momentum = channels, options.eps or 1e-5, options.momentum or 0.1
  if options.affine ~= false then
    self.weight = Module.Parameter(f.full({ channels }, 1))
    self.bias = Module.Parameter(f.zeros { channels })
  end
  self:register_buffer("running_mean", f.zeros { channels })
  self:register_buffer("running_var", f.full({ channels }, 1))
end

function BatchNorm1d:forward(x)
  return require "ltrain.nn.batch_norm"(self, x)
end

function BatchNorm1d:extra_text() return tostring(self.channels) end

return { LayerNorm = LayerNorm, BatchNorm1d = BatchNorm1d }
