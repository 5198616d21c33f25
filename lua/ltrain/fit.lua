--- model:fit: the training loop, made of public parts only. The same by hand:
---   for batch in train:iter() do
---     local loss = lt.bce_with_logits(model(batch), batch.label)
---     optimizer:zero_grad()
---     loss:backward()
---     optimizer:step()
---   end
local bridge = require "ltrain.ffi"
local evaluation = require "ltrain.evaluate"
local Progress = require "ltrain.progress"
local raise = bridge.raise

local function each(callbacks, event, context, logs)
  for _, callback in ipairs(callbacks) do
    if callback[event] then callback[event](callback, context, logs) end
  end
end

-- Which tensor holds a NaN or an infinity: a parameter, a gradient, or none of them.
local function culprit(model)
  local function bad(t) return t and not t:isfinite():all():item() end
  for _, entry in ipairs(model:named_parameters()) do
    if bad(entry.tensor) then return ("parameter %s"):format(entry.name) end
  end
  for _, entry in ipairs(model:named_parameters()) do
    local g = entry.tensor.grad
    if bad(type(g) == "table" and g.values or g) then return ("the gradient of %s"):format(entry.name) end
  end
  return "the model's input or output; no parameter holds one"
end

local function check_loss(model, value, epoch, step, lr)
  if value == value and math.abs(value) ~= math.huge then return end
  raise(("fit: the loss is %s at epoch %d, step %d; found in %s; the learning rate is %g: "
    .. "lower it or clip gradients (compile { clip_norm = 1 }), or look with lt.detect_anomaly()"):format(value ~= value and "NaN" or "infinite", epoch, step, culprit(model), lr))
end

-- One epoch of steps. Returns the mean loss over rows.
local function train_epoch(model, dataset, c, context, callbacks, progress, running)
  local sum, rows = 0, 0
  local function values()
    local v = { loss = sum / math.max(rows, 1) }
    for i, name in ipairs(c.metrics) do v[name] = running[i]:value() end
    return v
  end
  local names = { "loss", unpack(c.metrics) }
  for batch in dataset:iter() do
    local target = c.target(batch)
    local output = model(c.input(batch))
    local loss = c.loss(output, target, batch.weight)
    local value, n = loss:item(), target:size(1)
    context.step = context.step + 1
    check_loss(model, value, context.epoch, context.step_in_epoch + 1, c.optimizer:lr())
    c.optimizer:zero_grad()
    loss:backward()
    if c.clip_norm then c.optimizer:clip_grad_norm(c.clip_norm) end
    c.optimizer:step()
    context.step_in_epoch = context.step_in_epoch + 1
    sum, rows = sum + value * n, rows + n
    for i = 1, #running do running[i]:update(output, target, batch.weight) end
    progress:update(n, values, names)
    each(callbacks, "on_batch_end", context, { loss = value })
    if context.stop then break end
  end
  if rows == 0 then raise "fit: the data set has no rows" end
  progress:trained()
  return values(), names
end

---Trains the model.
---@param model table compiled
---@param dataset table batched
---@param options table|nil { epochs = 1, validation_data = nil, callbacks = {}, verbose = true, initial_epoch = 1 }
---@return table history { loss = {...}, val_auc = {...}, epochs = n }
return function(model, dataset, options)
  options = bridge.options("fit", options, { "epochs", "validation_data", "callbacks", "verbose", "initial_epoch" })
  local c = evaluation.compiled_of(model, "fit")
  local metrics = require "ltrain.metrics"
  local callbacks, epochs = options.callbacks or {}, options.epochs or 1
  local verbose = options.verbose ~= false
  local steps = dataset.steps and dataset:steps() or nil
  local progress = Progress.new(epochs, steps, verbose)
  local history = { epochs = 0 }
  local context = { model = model, optimizer = c.optimizer, step = 0, stop = false, history = history, verbose = verbose }
  if verbose and c.optimizer.table_text then
    for _, line in ipairs(c.optimizer:table_text()) do print(line) end
  end
  each(callbacks, "on_train_begin", context)
  for epoch = options.initial_epoch or 1, epochs do
    context.epoch, context.step_in_epoch = epoch, 0
    if dataset.set_epoch then dataset:set_epoch(epoch) end
    each(callbacks, "on_epoch_begin", context)
    local running = {}
    for i, name in ipairs(c.metrics) do running[i] = metrics.by_name(name, c.loss_name, true) end
    model:train()
    progress:begin(epoch)
    local logs, names = train_epoch(model, dataset, c, context, callbacks, progress, running)
    if options.validation_data then
      local result = evaluation.evaluate(model, options.validation_data)
      for _, name in ipairs { "loss", unpack(c.metrics) } do
        logs["val_" .. name] = result[name]
        names[#names + 1] = "val_" .. name
      end
    end
    logs.lr = c.optimizer:lr()
    for _, name in ipairs(names) do
      history[name] = history[name] or {}
      history[name][#history[name] + 1] = logs[name] or 0 / 0
    end
    history.epochs = epoch
    progress:finish(logs, names)
    each(callbacks, "on_epoch_end", context, logs)
    if context.stop then break end
  end
  each(callbacks, "on_train_end", context)
  model:eval()
  return history
end
