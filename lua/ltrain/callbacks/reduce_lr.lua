--- ReduceLROnPlateau: multiplies the learning rate by `factor` when the monitored value has not improved for more than
--- `patience` epochs.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"

local ReduceLROnPlateau = {}
ReduceLROnPlateau.__index = ReduceLROnPlateau

---@param options table { monitor = "val_loss", mode = "auto", factor = 0.1, patience = 10, min_delta = 0, min_lr = 0, cooldown = 0 }
local function new(options)
  options = bridge.options("ReduceLROnPlateau", options, { "monitor", "mode", "factor", "patience", "min_delta", "min_lr", "cooldown" })
  local factor = options.factor or 0.1
  if not (factor > 0 and factor < 1) then bridge.raise(("ReduceLROnPlateau: factor is %g; it must lie between 0 and 1"):format(factor)) end
  return setmetatable({ monitor = Monitor.new("ReduceLROnPlateau", options), factor = factor, patience = options.patience or 10,
    min_lr = options.min_lr or 0, cooldown = options.cooldown or 0 }, ReduceLROnPlateau)
end

function ReduceLROnPlateau:on_train_begin() self.monitor.best, self.waited, self.resting = nil, 0, 0 end

function ReduceLROnPlateau:on_epoch_end(context, logs)
  local better = self.monitor:improved(self.monitor:value(logs))
  if self.resting > 0 then
    self.resting, self.waited = self.resting - 1, 0
  elseif better then
    self.waited = 0
  else
    self.waited = self.waited + 1
    if self.waited > self.patience then
      self.waited, self.resting = 0, self.cooldown
      local lr = context.optimizer:lr()
      local lower = math.max(lr * self.factor, self.min_lr)
      if lower < lr then
        context.optimizer:lr(lower)
        if context.verbose then print(("learning rate %g -> %g: %s has not improved"):format(lr, lower, self.monitor.name)) end
      end
    end
  end
end

return new
