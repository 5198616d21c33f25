--- Callbacks of model:fit: tables with any of on_train_begin, on_epoch_begin, on_batch_end, on_epoch_end, on_train_end, each
--- called as callback:event(context, logs). context has model, optimizer, epoch (from 1), epochs, step, step_in_epoch,
--- history, names (of an epoch's values, in order) and stop (set it to end training); logs has the values by name.
local NAMES = { "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "TensorBoard" }
local FILES = { EarlyStopping = "early_stopping", ModelCheckpoint = "model_checkpoint", ReduceLROnPlateau = "reduce_lr",
  TensorBoard = "tensorboard" }

return setmetatable({}, {
  __members = NAMES,
  __index = function(t, name)
    local file = FILES[name]
    if not file then
      local bridge = require "ltrain.ffi"
      bridge.fail("callbacks: there is no %s%s; there are %s", tostring(name), bridge.suggest(name, NAMES, "%s"), table.concat(NAMES, ", "))
    end
    local new = require("ltrain.callbacks." .. file)
    rawset(t, name, new)
    return new
  end,
})
