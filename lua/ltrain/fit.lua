--- model:fit: the training loop, made of public parts only. The same by hand:
---   for batch in train:iter() do
---     local loss = lt.bce_with_logits(model(batch), batch.label)
---     optimizer:zero_grad()
---     loss:backward()
---     optimizer:step()
---   end
local bridge = require "ltrain.ffi"
local evaluation = require "ltrain.evaluate"
local finite = require "ltrain.check_finite"
local Progress = require "ltrain.progress"
local raise, fail = bridge.raise, bridge.fail

local EVENTS = { "on_train_begin", "on_epoch_begin", "on_batch_end", "on_epoch_end", "on_train_end" }

local function each(callbacks, event, context, logs)
  for _, callback in ipairs(callbacks) do
    if callback[event] then callback[event](callback, context, logs) end
  end
end

-- One epoch of steps. Returns its values by name: the mean loss over all that took part, running metrics.
local function train_epoch(run, running, names)
  local model, c, context, progress = run.model, run.compiled, run.context, run.progress
  local sum, divisor, rows = 0, 0, 0
  local function values()
    local v = { loss = divisor > 0 and sum / divisor or 0 }
    for i, name in ipairs(c.metrics) do v[name] = running[i]:value() end
    return v
  end
  for batch in run.dataset:iter() do
    local target = c.target(batch)
    local output = model(c.input(batch))
    local loss, n = c.loss(output, target, batch.weight)
    local value = loss:item()
    finite.loss(value, model, batch, output, context.epoch, context.step_in_epoch + 1, c.optimizer:lr())
    c.optimizer:zero_grad()
    loss:backward()
    if c.clip_norm then c.optimizer:clip_grad_norm(c.clip_norm) end
    c.optimizer:step()
    context.step, context.step_in_epoch = context.step + 1, context.step_in_epoch + 1
    sum, divisor, rows = sum + value * n, divisor + n, rows + target:size(1)
    for i = 1, #running do running[i]:update(output, target, batch.weight) end
    progress:update(target:size(1), values, names)
    each(run.callbacks, "on_batch_end", context, { loss = value })
    if context.stop then break end
  end
  if rows == 0 then raise "fit: the data set has no rows" end
  progress:trained()
  finite.parameters(model, context.epoch, context.step_in_epoch, c.optimizer:lr())
  return values()
end

local function whole(name, v, least)
  if type(v) ~= "number" or v ~= math.floor(v) or v < least or v == math.huge then
    fail("fit: %s is %s; it must be a whole number of at least %d", name, tostring(v), least)
  end
  return v
end

local function check_callbacks(callbacks)
  if type(callbacks) ~= "table" then fail("fit: callbacks is a %s; it must be a list", type(callbacks)) end
  for i, callback in ipairs(callbacks) do
    local known = false
    if type(callback) == "table" then
      for _, event in ipairs(EVENTS) do known = known or callback[event] ~= nil end
    end
    if not known then
      fail("fit: callback %d is a %s without %s; lt.callbacks has some, and any table with one of these functions is one", i, type(callback),
        table.concat(EVENTS, ", "))
    end
  end
  for key in pairs(callbacks) do
    if type(key) ~= "number" then fail("fit: callbacks is a list; it has the key '%s', so put the callback in braces", tostring(key)) end
  end
  return callbacks
end

-- Names of an epoch's values, in the order in which they are shown.
local function names_of(c, validating)
  local names = { "loss" }
  for _, name in ipairs(c.metrics) do names[#names + 1] = name end
  for i = 1, validating and #names or 0 do names[#names + 1] = "val_" .. names[i] end
  return names
end

local function run_epoch(run, epoch, names)
  local c, context = run.compiled, run.context
  local running = {}
  for i, name in ipairs(c.metrics) do running[i] = require("ltrain.metrics").by_name(name, c.loss_name, true) end
  run.model:train()
  run.progress:begin(epoch)
  local logs = train_epoch(run, running, run.training_names)
  if run.validation then
    local result = evaluation.evaluate(run.model, run.validation)
    for name, value in pairs(result) do logs["val_" .. name] = value end
  end
  for _, name in ipairs(names) do -- a value that does not exist, as the AUC of one class, is NaN
    if logs[name] == nil then logs[name] = 0 / 0 end
    context.history[name][#context.history[name] + 1] = logs[name]
  end
  logs.lr = c.optimizer:lr()
  context.history.epochs = epoch
  run.progress:finish(logs, names)
  return logs
end

---Trains the model.
---@param model table compiled
---@param dataset table batched
---@param options table|nil { epochs = 1, validation_data = nil, callbacks = {}, verbose = true, initial_epoch = 1 }
---@return table history { loss = {...}, val_auc = {...}, epochs = n }
return function(model, dataset, options)
  options = bridge.options("fit", options, { "epochs", "validation_data", "callbacks", "verbose", "initial_epoch" })
  local c = evaluation.compiled_of(model, "fit")
  evaluation.check_dataset(dataset, "fit")
  if options.validation_data then evaluation.check_dataset(options.validation_data, "fit: validation_data") end
  local epochs, first = whole("epochs", options.epochs or 1, 1), whole("initial_epoch", options.initial_epoch or 1, 1)
  local callbacks, verbose = check_callbacks(options.callbacks or {}), options.verbose ~= false
  local steps = dataset.steps and dataset:steps() or nil
  local names = names_of(c, options.validation_data)
  local history = { epochs = 0 }
  for _, name in ipairs(names) do history[name] = {} end
  local context = { model = model, optimizer = c.optimizer, step = 0, stop = false, history = history, verbose = verbose, names = names,
    epochs = epochs }
  local run = { model = model, dataset = dataset, compiled = c, context = context, callbacks = callbacks, validation = options.validation_data,
    progress = Progress.new(epochs, steps, verbose), training_names = names_of(c, false) }
  for _, line in ipairs(verbose and c.optimizer.table_text and c.optimizer:table_text() or {}) do print(line) end
  each(callbacks, "on_train_begin", context)
  for epoch = first, epochs do
    context.epoch, context.step_in_epoch = epoch, 0
    if dataset.set_epoch then dataset:set_epoch(epoch) end
    each(callbacks, "on_epoch_begin", context)
    local logs = run_epoch(run, epoch, names)
    each(callbacks, "on_epoch_end", context, logs)
    if context.stop then break end
  end
  each(callbacks, "on_train_end", context)
  model:eval()
  return history
end
