--- Stochastic gradient descent with momentum (classical or Nesterov), PyTorch's formulation: v = momentum v + g; p -= lr v.
local Optimizer = require "ltrain.optim.optimizer"
local C = require("ltrain.ffi").C

return Optimizer.class { name = "SGD", rule = tonumber(C.LT_STEP_SGD), state_names = { "momentum" },
  options = { "lr", "momentum", "dampening", "nesterov", "weight_decay", "l2_scope", "update" },
  defaults = { lr = 1e-2 } }
