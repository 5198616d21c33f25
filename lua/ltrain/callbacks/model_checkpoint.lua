--- ModelCheckpoint: saves the model after epochs, by default only when the monitored value is the best so far. The file is
--- replaced whole or not at all. Path "best" becomes best.safetensors; "{epoch}" in it is the epoch's number.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"

local ModelCheckpoint = {}
ModelCheckpoint.__index = ModelCheckpoint

---@param options table { path = , monitor = "val_loss", mode = "auto", save_best_only = true }
local function new(options)
  options = bridge.options("ModelCheckpoint", options, { "path", "monitor", "mode", "save_best_only" })
  if type(options.path) ~= "string" then bridge.raise "ModelCheckpoint: path must be given" end
  local path = options.path:match "%.safetensors$" and options.path or options.path .. ".safetensors"
  return setmetatable({ path = path, monitor = Monitor.new("ModelCheckpoint", options), best_only = options.save_best_only ~= false }, ModelCheckpoint)
end

function ModelCheckpoint:on_train_begin() self.monitor.best = nil end

function ModelCheckpoint:on_epoch_end(context, logs)
  local better = self.best_only and self.monitor:improved(self.monitor:value(logs))
  if better or not self.best_only then
    context.model:save((self.path:gsub("{epoch}", tostring(context.epoch))))
  end
end

return new
