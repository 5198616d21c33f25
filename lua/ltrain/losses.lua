--- The losses of model:compile by name. Each is a function(output, target, weight) that returns the loss of a batch and
--- what it was divided by, so that means over batches of any sizes add up: sum(loss * divisor) / sum(divisor) is the
--- mean over all. Rows whose target is ignored take no part; sample weights multiply, as in Keras, or with
--- normalize = "weights" the loss is divided by their sum.
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local is_tensor = require("ltrain.tensor").is_tensor
local raise, fail = bridge.raise, bridge.fail

local M = {}

local NAMES = { "bce_with_logits", "cross_entropy", "huber", "l1", "mse" }
local OPERATORS = { bce_with_logits = "bce_with_logits", huber = "huber_loss", l1 = "l1_loss", mse = "mse_loss" }
local IGNORED = -100 -- of cross_entropy, as in PyTorch

-- Do two shapes differ by dims of size 1 only?
local function alike(a, b)
  local i, j = 1, 1
  while true do
    while a[i] == 1 do i = i + 1 end
    while b[j] == 1 do j = j + 1 end
    if a[i] ~= b[j] then return false end
    if a[i] == nil then return true end
    i, j = i + 1, j + 1
  end
end

-- Weights [rows] spread over losses [rows, ...].
local function spread(weight, shape)
  if weight:numel() ~= shape[1] then return weight end -- one for each loss already; the operator says when it is not
  local wanted = { shape[1] }
  for d = 2, #shape do wanted[d] = 1 end
  return weight:reshape(wanted)
end

local function total(t) return t:sum():item() end

-- The mean of single losses `each`, of which `count` take part.
local function weighted(each, weight, count, by_weights, part)
  weight = spread(weight, each.shape)
  local divisor = count
  if by_weights then divisor = total(part and op.functions.where(part, weight, 0) or op.functions.expand(weight, each.shape)) end
  local sum = (each * weight):sum()
  return divisor > 0 and sum / divisor or sum * 0, divisor
end

-- A label of 2 would train, to nonsense.
local function check_labels(target)
  local outside = op.functions.logical_or(op.functions.lt(target, 0), op.functions.gt(target, 1))
  if not outside:any():item() then return end
  local at = outside:reshape(-1):uint8():argmax():item() + 1
  fail("bce_with_logits: the label of row %d of the batch is %.9g; labels lie between 0 and 1 (schema label = { column, at_least = ... } makes them)",
    at, target:reshape(-1)[at]:item())
end

local function elementwise(name, by_weights)
  local loss = op.functions[OPERATORS[name]]
  return function(output, target, weight)
    if name == "bce_with_logits" then check_labels(target) end
    local shape = target.shape
    if #output.shape ~= #shape and alike(output.shape, shape) then output = output:reshape(shape) end
    local count = output:numel()
    if not weight then return loss(output, target), count end
    if name == "bce_with_logits" and not by_weights then return loss(output, target, spread(weight, output.shape)), count end
    return weighted(loss(output, target, { reduction = "none" }), weight, count, by_weights)
  end
end

local function cross_entropy(by_weights)
  return function(output, target, weight)
    local part = op.functions.ne(target, IGNORED)
    local count = total(part)
    if not weight then return op.functions.cross_entropy(output, target), count end
    return weighted(op.functions.cross_entropy(output, target, { reduction = "none" }), weight, count, by_weights, part)
  end
end

-- A user's loss may say what it was divided by; else it is taken for a mean over rows.
local function own(loss)
  return function(output, target, weight)
    local value, divisor = loss(output, target, weight)
    if not is_tensor(value) or value:numel() ~= 1 then
      fail("fit: the loss function returned %s; it must return a tensor with one element", is_tensor(value)
        and ("a tensor [%s]"):format(table.concat(value.shape, ", ")) or "a " .. type(value))
    end
    return value, divisor or target:size(1)
  end
end

---@param loss string|function function(output, target, weight) -> loss, divisor (default: rows)
---@param normalize string|nil "rows" or "weights"
function M.by_name(loss, normalize)
  if normalize ~= nil and normalize ~= "rows" and normalize ~= "weights" then
    fail("compile: normalize is '%s'; it must be 'rows' or 'weights'", tostring(normalize))
  end
  local by_weights = normalize == "weights"
  if type(loss) == "function" then return own(loss) end
  if loss == "cross_entropy" then return cross_entropy(by_weights) end
  if OPERATORS[loss] then return elementwise(loss, by_weights) end
  raise(("compile: there is no loss '%s'%s; there are %s, or a function(output, target, weight)"):format(tostring(loss),
    bridge.suggest(loss, NAMES), table.concat(NAMES, ", ")))
end

return M
