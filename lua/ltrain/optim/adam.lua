--- Adam (Kingma and Ba 2015). Weight decay is L2: added to the gradient. On embedding tables `update` is "lazy" (moments of
--- touched rows only) or "exact" (what dense Adam gives, also for rows not touched).
local Optimizer = require "ltrain.optim.optimizer"
local C = require("ltrain.ffi").C

return Optimizer.class { name = "Adam", rule = tonumber(C.LT_STEP_ADAM), state_names = { "exp_avg", "exp_avg_sq" },
  options = { "lr", "betas", "eps", "weight_decay", "l2_scope", "update" },
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8 } }
