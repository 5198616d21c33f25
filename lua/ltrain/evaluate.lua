--- model:evaluate and model:predict: every row exactly once, without gradients, in evaluation mode.
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local raise = bridge.raise

local M = {}

local function compiled_of(model, what)
  local c = rawget(model, "compiled")
  if not c then raise(what .. ": the model is not compiled; call model:compile { optimizer =, loss = } first") end
  return c
end
M.compiled_of = compiled_of

-- Runs each(batch, output) over the data set in evaluation mode; training mode comes back afterwards, also on errors.
local function over(model, dataset, c, each)
  local was = model:is_training()
  model:eval()
  local ok, message = pcall(function()
    require("ltrain.autograd").no_grad(function()
      for batch in dataset:iter() do each(batch, model(c.input(batch))) end
    end)
  end)
  model:train(was)
  if not ok then error(message, 0) end
end

---Loss and metrics over a data set.
---@param model table
---@param dataset table batched
---@return table { loss =, auc =, ... }
function M.evaluate(model, dataset)
  local c = compiled_of(model, "evaluate")
  local metrics = require "ltrain.metrics"
  local states, sum, rows = {}, 0, 0
  for i, name in ipairs(c.metrics) do states[i] = metrics.by_name(name, c.loss_name) end
  over(model, dataset, c, function(batch, output)
    local target = c.target(batch)
    local n = target:size(1)
    sum = sum + c.loss(output, target, batch.weight):item() * n
    rows = rows + n
    for _, state in ipairs(states) do state:update(output, target, batch.weight) end
  end)
  if rows == 0 then raise "evaluate: the data set has no rows" end
  local result = { loss = sum / rows }
  for i, name in ipairs(c.metrics) do result[name] = states[i]:value() end
  return result
end

---The model's outputs for every row; probabilities when the loss is bce_with_logits, unless { logits = true }.
---@return userdata tensor
function M.predict(model, dataset, options)
  options = bridge.options("predict", options, { "logits" })
  local c = compiled_of(model, "predict")
  local parts = {}
  over(model, dataset, c, function(_, output)
    if c.loss_name == "bce_with_logits" and not options.logits then output = op.functions.sigmoid(output) end
    parts[#parts + 1] = output:clone():keep()
  end)
  if #parts == 0 then raise "predict: the data set has no rows" end
  return op.functions.cat(parts, 1)
end

return M
