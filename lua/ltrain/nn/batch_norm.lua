--- What BatchNorm does in training and in evaluation. In training the batch's own statistics normalise, and the running
--- ones move towards them by `momentum`; their variance is the unbiased one. In evaluation the running ones normalise.
local autograd = require "ltrain.autograd"
local op = require "ltrain.op"
local f = op.functions

local function move(running, batch, momentum)
  f.copy_(running, f.add(f.mul(running, 1 - momentum), f.mul(batch, momentum)))
end

---@param module table eps, momentum, running_mean, running_var; weight and bias, or neither
---@param x userdata [n, channels] or [n, channels, ...]
---@return userdata normalised x
return function(module, x)
  local weight, bias = rawget(module, "weight"), rawget(module, "bias")
  if not module:is_training() then
    return f.batch_norm_eval(x, module.running_mean, module.running_var, weight, bias, module.eps)
  end
  local y, mean, var = f.batch_norm(x, weight, bias, module.eps)
  local n = x:numel() / math.max(1, mean:numel())
  autograd.no_grad(function()
    move(module.running_mean, mean, module.momentum)
    move(module.running_var, f.mul(var, n / math.max(1, n - 1)), module.momentum)
  end)
  return y
end
