--- EarlyStopping: ends training when the monitored value has not improved for `patience` epochs, and, if asked, puts the
--- best epoch's weights back.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"

local EarlyStopping = {}
EarlyStopping.__index = EarlyStopping

---@param options table { monitor = "val_loss", mode = "auto", patience = 0, min_delta = 0, restore_best_weights = false }
local function new(options)
  options = bridge.options("EarlyStopping", options, { "monitor", "mode", "patience", "min_delta", "restore_best_weights" })
  return setmetatable({ monitor = Monitor.new("EarlyStopping", options), patience = options.patience or 0,
    restore = options.restore_best_weights }, EarlyStopping)
end

function EarlyStopping:on_train_begin()
  self.monitor.best, self.waited, self.best_epoch, self.best_state = nil, 0, nil, nil
end

function EarlyStopping:on_epoch_end(context, logs)
  if self.monitor:improved(self.monitor:value(logs)) then
    self.waited, self.best_epoch = 0, context.epoch
    if self.restore then
      self.best_state = {}
      for _, entry in ipairs(context.model:state_dict()) do self.best_state[entry.name] = entry.tensor:detach():clone():keep() end
    end
    return
  end
  self.waited = self.waited + 1
  if self.waited >= self.patience then
    context.stop = true
    if context.verbose then
      print(("early stop after epoch %d: best %s %.4f at epoch %d"):format(context.epoch, self.monitor.name, self.monitor.best, self.best_epoch))
    end
  end
end

function EarlyStopping:on_train_end(context)
  if self.best_state and self.best_epoch ~= context.epoch then context.model:load_state_dict(self.best_state) end
  self.best_state = nil
end

return new
