--- A multi-layer perceptron on dense inputs [batch, n_in].
local lt = require "ltrain"
local nn = lt.nn

local Perceptron = nn.class("Perceptron")

---@param config table { n_in = 784, hidden = { 512, 256 }, n_out = 10, dropout = 0, activation = "relu", batch_norm = false }
function Perceptron:init(config)
  self.mlp = nn.MLP(config)
  rawset(self, "model_name", "mlp")
  rawset(self, "config", config)
end

function Perceptron:forward(x) return self.mlp(x) end

return function(config) return Perceptron(config) end
