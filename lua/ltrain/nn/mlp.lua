--- MLP: Linear, activation, (batch norm,) dropout for each hidden size, and a last Linear when n_out is given.
local Module = require "ltrain.nn.module"
local Sequential = require "ltrain.nn.container"
local Linear = require "ltrain.nn.linear"
local Dropout = require "ltrain.nn.dropout"
local activation = require "ltrain.nn.activation"
local bridge = require "ltrain.ffi"

local MLP = Module.class "MLP"

---@param options table { n_in =, hidden = { 400, 400 }, n_out = nil, activation = "relu", dropout = 0, batch_norm = false, init = nil }
function MLP:init(options)
  options = bridge.options("MLP", options, { "n_in", "hidden", "n_out", "activation", "dropout", "batch_norm", "init", "bias_init" })
  if type(options.n_in) ~= "number" then bridge.raise "MLP: n_in (the size of the last dim of its input) must be given" end
  if options.hidden ~= nil and type(options.hidden) ~= "table" then
    bridge.raise(("MLP: hidden is %s; it must be a list of sizes, { 400, 400 }"):format(tostring(options.hidden)))
  end
  local layers, size = {}, options.n_in
  for _, n in ipairs(options.hidden or {}) do
    layers[#layers + 1] = Linear(size, n, { init = options.init, bias_init = options.bias_init })
    if options.batch_norm then layers[#layers + 1] = require("ltrain.nn.norm").BatchNorm1d(n) end
    layers[#layers + 1] = activation.by_name(options.activation or "relu")
    if options.dropout and options.dropout > 0 then layers[#layers + 1] = Dropout(options.dropout) end
    size = n
  end
  if options.n_out then layers[#layers + 1] = Linear(size, options.n_out, { init = options.init, bias_init = options.bias_init }) end
  self.layers = Sequential(layers)
end

function MLP:forward(x) return self.layers(x) end

return MLP
