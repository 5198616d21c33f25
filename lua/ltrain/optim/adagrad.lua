--- Adagrad (Duchi et al. 2011): each element's rate falls with the root of the sum of its squared gradients.
local Optimizer = require "ltrain.optim.optimizer"
local C = require("ltrain.ffi").C

return Optimizer.class { name = "Adagrad", rule = tonumber(C.LT_STEP_ADAGRAD), state_names = { "sum" },
  options = { "lr", "lr_decay", "eps", "weight_decay", "l2_scope", "update" },
  defaults = { lr = 1e-2, eps = 1e-10 } }
