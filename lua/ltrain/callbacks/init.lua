--- Callbacks of model:fit: tables with any of on_train_begin, on_epoch_begin, on_batch_end, on_epoch_end, on_train_end, each
--- called as callback:event(context, logs). context has model, optimizer, epoch, step and stop (set it to end training).
local FILES = { EarlyStopping = "early_stopping", ReduceLROnPlateau = "reduce_lr", ModelCheckpoint = "model_checkpoint",
  TensorBoard = "tensorboard" }

return setmetatable({}, {
  __index = function(t, name)
    local file = FILES[name]
    if not file then
      local bridge = require "ltrain.ffi"
      local names = { "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "TensorBoard" }
      bridge.raise(("callbacks: there is no %s%s; there are %s"):format(tostring(name), bridge.suggest(name, names, "%s"), table.concat(names, ", ")))
    end
    local new = require("ltrain.callbacks." .. file)
    rawset(t, name, new)
    return new
  end,
})
