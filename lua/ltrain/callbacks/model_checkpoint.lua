--- ModelCheckpoint: saves the model after epochs, by default only when the monitored value is the best so far. The file is
--- replaced whole or not at all. Path "best" becomes best.safetensors; "{epoch}" in it is the epoch's number.
local Monitor = require "ltrain.callbacks.monitor"
local bridge = require "ltrain.ffi"

local ModelCheckpoint = {}
ModelCheckpoint.__index = ModelCheckpoint

---@param options table { path = , monitor = "val_loss", mode = "auto", save_best_only = true }
local function new(options)
  options = bridge.options("ModelCheckpoint", options, { "path", "monitor", "mode", "save_best_only" })
  if type(options.path) ~= "string" then bridge.raise "ModelCheckpoint: path must be given, for instance \"best\"" end
  local path = options.path:match "%.safetensors$" and options.path or options.path .. ".safetensors"
  local best_only = options.save_best_only ~= false
  return setmetatable({ path = path, monitor = best_only and Monitor.new("ModelCheckpoint", options) or nil }, ModelCheckpoint)
end

function ModelCheckpoint:on_train_begin(context)
  if self.monitor then self.monitor:start(context) end
end

function ModelCheckpoint:on_epoch_end(context, logs)
  if self.monitor and not self.monitor:improved(logs) then return end
  context.model:save((self.path:gsub("{epoch}", tostring(context.epoch))))
end

return new
