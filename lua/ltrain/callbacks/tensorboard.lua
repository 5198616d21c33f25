--- TensorBoard: curves of an epoch's values under path/train and path/validation, side by side as Keras writes them:
--- tags epoch_loss, epoch_auc, ... and epoch_learning_rate, the step being the epoch; batch_loss with update_freq. Look with
--- `tensorboard --logdir path`. Give each run a path of its own: a later run's steps replace an earlier one's.
local bridge = require "ltrain.ffi"

local TensorBoard = {}
TensorBoard.__index = TensorBoard

---@param options table { path = , update_freq = "epoch" | "batch" | n: also the loss of every n-th step }
local function new(options)
  options = bridge.options("TensorBoard", options, { "path", "update_freq" })
  if type(options.path) ~= "string" then bridge.raise "TensorBoard: path must be given, for instance \"logs\"" end
  local every = options.update_freq or "epoch"
  if every == "batch" then every = 1 end
  if every ~= "epoch" and not (type(every) == "number" and every >= 1 and every == math.floor(every)) then
    bridge.fail("TensorBoard: update_freq is %s; it must be 'epoch', 'batch' or a whole number of steps", tostring(every))
  end
  return setmetatable({ path = options.path, every = every ~= "epoch" and every or nil }, TensorBoard)
end

local function open(self, name)
  local file, message = require("ltrain.log.event_file").open(self.path .. "/" .. name)
  if not file then bridge.fail("TensorBoard: %s", message) end
  return file
end

-- A full disk ends the curves, not the training.
local function flush(self)
  self.flushed = bridge.C.lt_clock()
  for _, name in ipairs { "train", "validation" } do
    local file = self.files[name]
    local ok, message = true, nil
    if file then ok, message = file:flush() end
    if not ok then
      io.stderr:write("ltrain: TensorBoard: ", message, "; no more curves are written\n")
      self.failed = true
    end
  end
end

function TensorBoard:on_train_begin()
  self.failed, self.flushed = false, bridge.C.lt_clock()
  self.files = { train = open(self, "train") }
end

function TensorBoard:on_batch_end(context, logs)
  if not self.every or self.failed or context.step % self.every ~= 0 then return end
  self.files.train:scalar("batch_loss", logs.loss, context.step)
  if bridge.C.lt_clock() - self.flushed > 10 then flush(self) end
end

function TensorBoard:on_epoch_end(context, logs)
  if self.failed then return end
  for _, name in ipairs(context.names) do
    local plain = name:match "^val_(.*)$"
    if plain and not self.files.validation then self.files.validation = open(self, "validation") end
    self.files[plain and "validation" or "train"]:scalar("epoch_" .. (plain or name), logs[name], context.epoch)
  end
  self.files.train:scalar("epoch_learning_rate", logs.lr, context.epoch)
  flush(self)
end

function TensorBoard:on_train_end()
  if not self.failed then flush(self) end
  for _, name in ipairs { "train", "validation" } do
    if self.files[name] then self.files[name]:close() end
  end
end

return new
