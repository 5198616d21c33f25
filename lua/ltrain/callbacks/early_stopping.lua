--- EarlyStopping: ends training when the monitored value has not improved for `patience` epochs, and, if asked, puts the
--- best epoch's weights back (also when training ends by itself). best_epoch tells which it was.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"

local EarlyStopping = {}
EarlyStopping.__index = EarlyStopping

---@param options table { monitor = "val_loss", mode = "auto", patience = 0, min_delta = 0, restore_best_weights = false }
local function new(options)
  options = bridge.options("EarlyStopping", options, { "monitor", "mode", "patience", "min_delta", "restore_best_weights" })
  return setmetatable({ monitor = Monitor.new("EarlyStopping", options),
    patience = Monitor.number("EarlyStopping", "patience", options.patience, 0, true), restore = options.restore_best_weights }, EarlyStopping)
end

function EarlyStopping:on_train_begin(context)
  self.monitor:start(context)
  self.waited, self.best_epoch, self.best_state = 0, nil, nil
end

-- The weights as they are now, in tensors that are made once.
local function remember(self, model)
  local first = self.best_state == nil
  self.best_state = self.best_state or {}
  require("ltrain.autograd").no_grad(function()
    for _, entry in ipairs(model:state_dict()) do
      if first then self.best_state[entry.name] = entry.tensor:detach():clone():keep()
      else op.functions.copy_(self.best_state[entry.name], entry.tensor) end
    end
  end)
end

function EarlyStopping:on_epoch_end(context, logs)
  local monitor = self.monitor
  if monitor:improved(logs) then
    self.waited, self.best_epoch = 0, context.epoch
    if self.restore then remember(self, context.model) end
    return
  end
  self.waited = self.waited + 1
  if self.waited < self.patience then return end
  context.stop = true
  if context.verbose then
    print(("early stop after epoch %d: best %s %s%s"):format(context.epoch, monitor.name, monitor:text(),
      self.best_epoch and (" at epoch %d"):format(self.best_epoch) or ""))
  end
end

function EarlyStopping:on_train_end(context)
  if self.best_state and self.best_epoch ~= context.epoch then context.model:load_state_dict(self.best_state) end
  self.best_state = nil
end

return new
