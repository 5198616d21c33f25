--- Looks for what made a loss NaN or infinite: parameters, gradients, the batch, the model's output, in this order.
local bridge = require "ltrain.ffi"
local is_tensor = require("ltrain.tensor").is_tensor

local M = {}

local function bad(t) return is_tensor(t) and t.dtype:find "float" and t:numel() > 0 and not t:isfinite():all():item() end

-- A RowGrad or a dense gradient, as a tensor.
local function gradient(t)
  local g = t.grad
  return type(g) == "table" and g.values or g
end

---The first parameter that holds a NaN or an infinity, by name; nil when all are finite.
---@param model table
---@return string|nil name
function M.parameter(model)
  for _, entry in ipairs(model:named_parameters()) do
    if bad(entry.tensor) then return entry.name end
  end
end

-- Tensors of a batch by name, in byte order.
local function parts(batch)
  local names = {}
  for name, value in pairs(batch) do
    if type(name) == "string" and is_tensor(value) then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- "[3, 2]": the first place, counted from 1.
local function place(t)
  local at = t:isfinite():logical_not():nonzero():select(1, 1):totable()
  for d = 1, #at do at[d] = ("%d"):format(at[d] + 1) end
  return "[" .. table.concat(at, ", ") .. "]"
end

---Where the numbers went wrong, as words for a message.
function M.culprit(model, batch, output)
  local name = M.parameter(model)
  if name then return ("parameter %s"):format(name) end
  for _, part in ipairs(is_tensor(batch) and {} or parts(batch)) do
    if bad(batch[part]) then return ("batch.%s at %s"):format(part, place(batch[part])) end
  end
  if bad(output) then return "the model's output; no parameter and no part of the batch holds one" end
  for _, entry in ipairs(model:named_parameters()) do
    if bad(gradient(entry.tensor)) then return ("the gradient of %s"):format(entry.name) end
  end
  return "the loss alone; the model's output is finite"
end

---Raises when a loss is not finite.
function M.loss(value, model, batch, output, epoch, step, lr)
  if value == value and math.abs(value) ~= math.huge then return end
  bridge.fail("fit: the loss is %s at epoch %d, step %d; found in %s; the learning rate is %g: lower it or clip gradients "
    .. "(compile { clip_norm = 1 }), or look with lt.detect_anomaly()", value ~= value and "NaN" or "infinite", epoch, step,
    M.culprit(model, batch, output), lr)
end

---Raises when the last step of an epoch broke a parameter, before anything is saved.
function M.parameters(model, epoch, step, lr)
  local name = M.parameter(model)
  if not name then return end
  bridge.fail("fit: parameter %s holds NaN or infinity after epoch %d, step %d; the learning rate is %g: lower it or clip gradients "
    .. "(compile { clip_norm = 1 })", name, epoch, step, lr)
end

return M
