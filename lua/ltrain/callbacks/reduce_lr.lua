--- ReduceLROnPlateau: multiplies the learning rate by `factor` when the monitored value has not improved for `patience`
--- epochs, as in Keras; after that `cooldown` epochs are not counted.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"

local NAME = "ReduceLROnPlateau"
local ReduceLROnPlateau = {}
ReduceLROnPlateau.__index = ReduceLROnPlateau

---@param options table { monitor = "val_loss", mode = "auto", factor = 0.1, patience = 10, min_delta = 1e-4, min_lr = 0,
--- cooldown = 0 }
local function new(options)
  options = bridge.options(NAME, options, { "monitor", "mode", "factor", "patience", "min_delta", "min_lr", "cooldown" })
  local factor = Monitor.number(NAME, "factor", options.factor, 0.1)
  if not (factor > 0 and factor < 1) then bridge.fail("%s: factor is %g; it must lie between 0 and 1", NAME, factor) end
  return setmetatable({ monitor = Monitor.new(NAME, options, 1e-4), factor = factor,
    patience = Monitor.number(NAME, "patience", options.patience, 10, true), min_lr = Monitor.number(NAME, "min_lr", options.min_lr, 0),
    cooldown = Monitor.number(NAME, "cooldown", options.cooldown, 0, true) }, ReduceLROnPlateau)
end

function ReduceLROnPlateau:on_train_begin(context)
  self.monitor:start(context)
  self.waited, self.resting = 0, 0
end

function ReduceLROnPlateau:on_epoch_end(context, logs)
  if self.resting > 0 then self.resting, self.waited = self.resting - 1, 0 end
  if self.monitor:improved(logs) then
    self.waited = 0
    return
  end
  if self.resting > 0 then return end
  self.waited = self.waited + 1
  if self.waited < self.patience then return end
  self.waited, self.resting = 0, self.cooldown
  local before = context.optimizer:lr()
  for _, group in ipairs(context.optimizer.groups) do -- each keeps its ratio to the others
    group.lr = math.min(group.lr, math.max(group.lr * self.factor, self.min_lr))
  end
  local lr = context.optimizer:lr()
  if lr < before and context.verbose then print(("learning rate %g -> %g: %s has not improved"):format(before, lr, self.monitor.name)) end
end

return new
