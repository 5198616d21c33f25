--- model:evaluate and model:predict: every row exactly once, without gradients, in evaluation mode.
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local is_tensor = require("ltrain.tensor").is_tensor
local raise, fail = bridge.raise, bridge.fail

local M = {}

function M.compiled_of(model, what)
  local c = rawget(model, "compiled")
  if not c then raise(what .. ": the model is not compiled; call model:compile { optimizer =, loss = } first") end
  return c
end

---Complains about what is no data set with batches, or has no end.
function M.check_dataset(dataset, what)
  if type(dataset) ~= "table" or not dataset.iter then
    fail("%s: the data is a %s; it must be a data set with batches, for instance lt.data.from_tensors { x =, y = }:batch(32)", what,
      is_tensor(dataset) and "tensor" or type(dataset))
  end
  if dataset.steps and dataset:steps() == math.huge then
    fail("%s: the data set repeats without end; give repeat_ a count", what)
  end
end

-- Runs each(batch, output) over the data set in evaluation mode; each module gets its own mode back, also after errors.
local function over(model, dataset, c, each)
  local modules, modes = model:named_modules(), {}
  for i, entry in ipairs(modules) do modes[i] = entry.module:is_training() end
  model:eval()
  local ok, message = pcall(function()
    require("ltrain.autograd").no_grad(function()
      for batch in dataset:iter() do each(batch, model(c.input(batch))) end
    end)
  end)
  for i, entry in ipairs(modules) do entry.module:set_training(modes[i]) end
  if not ok then error(message, 0) end
end

---Loss and metrics over a data set: means over all rows that take part, whatever the batches' sizes.
---@param model table
---@param dataset table batched
---@return table { loss =, auc =, ... }; a metric without a value (AUC of one class) is missing
function M.evaluate(model, dataset)
  local c = M.compiled_of(model, "evaluate")
  M.check_dataset(dataset, "evaluate")
  local metrics = require "ltrain.metrics"
  local states, sum, divisor, rows = {}, 0, 0, 0
  for i, name in ipairs(c.metrics) do states[i] = metrics.by_name(name, c.loss_name) end
  over(model, dataset, c, function(batch, output)
    local target = c.target(batch)
    local loss, n = c.loss(output, target, batch.weight)
    sum, divisor, rows = sum + loss:item() * n, divisor + n, rows + target:size(1)
    for _, state in ipairs(states) do state:update(output, target, batch.weight) end
  end)
  if rows == 0 then raise "evaluate: the data set has no rows" end
  local result = setmetatable({ loss = divisor > 0 and sum / divisor or 0 }, { __tostring = function(values)
    local parts = {}
    for _, name in ipairs { "loss", unpack(c.metrics) } do
      if values[name] then parts[#parts + 1] = ("%s %.4f"):format(name, values[name]) end
    end
    return table.concat(parts, "  ")
  end })
  for i, name in ipairs(c.metrics) do result[name] = states[i]:value() end
  return result
end

local function joined(parts)
  while #parts > 1 do
    local next_parts = {}
    for first = 1, #parts, 1000 do
      next_parts[#next_parts + 1] = op.functions.cat({ unpack(parts, first, math.min(first + 999, #parts)) }, 1)
    end
    parts = next_parts
  end
  return parts[1]
end

---The model's outputs for every row, in order. Probabilities when the loss is bce_with_logits or cross_entropy, unless
---{ logits = true }.
---@return userdata tensor
function M.predict(model, dataset, options)
  options = bridge.options("predict", options, { "logits" })
  local c = rawget(model, "compiled") or { input = require("ltrain.compile").default_input,
    loss_name = rawget(model, "gives_logits") and "bce_with_logits" or "none" } -- a model that was only loaded
  M.check_dataset(dataset, "predict")
  local plan = dataset.plan
  if plan and plan.shuffle then
    raise "predict: the data set is shuffled, so predictions would not be in the order of its rows; leave shuffle out"
  end
  local parts = {}
  over(model, dataset, c, function(_, output)
    if not options.logits then
      if c.loss_name == "bce_with_logits" then output = op.functions.sigmoid(output)
      elseif c.loss_name == "cross_entropy" then output = op.functions.softmax(output, math.min(2, output:dim())) end
    end
    parts[#parts + 1] = output:clone():keep()
  end)
  if #parts == 0 then raise "predict: the data set has no rows" end
  return joined(parts)
end

return M
