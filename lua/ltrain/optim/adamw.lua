--- AdamW (Loshchilov and Hutter 2019): Adam whose weight decay shrinks the weights instead of joining the gradient.
local Optimizer = require "ltrain.optim.optimizer"
local C = require("ltrain.ffi").C

return Optimizer.class { name = "AdamW", rule = tonumber(C.LT_STEP_ADAM), decoupled = true, state_names = { "exp_avg", "exp_avg_sq" },
  options = { "lr", "betas", "eps", "weight_decay", "l2_scope", "update" },
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 1e-2 } }
