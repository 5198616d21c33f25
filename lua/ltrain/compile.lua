--- model:compile: ties a model to its optimizer, loss and metrics, and says which parts of a batch go where. A batch with a
--- label goes to the model whole and its label is the target; a batch { x, y } gives x to the model and y is the target;
--- `input` and `target` (names or functions of the batch) say otherwise.
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local raise = bridge.raise

local LOSSES = { "bce_with_logits", "cross_entropy", "huber", "l1", "mse" }
local OPERATOR = { bce_with_logits = "bce_with_logits", cross_entropy = "cross_entropy", huber = "huber_loss", l1 = "l1_loss", mse = "mse_loss" }

local function loss_function(loss)
  if type(loss) == "function" then return loss end
  for _, name in ipairs(LOSSES) do
    if name == loss then
      local operator = OPERATOR[name]
      return function(output, target, weight)
        if name ~= "cross_entropy" and output:numel() == target:numel() then output = output:view_as(target) end
        if not weight then return op.functions[operator](output, target) end
        local each = op.functions[operator](output, target, { reduction = "none" })
        return (each * weight:view_as(each)):sum() / each:numel() -- sample weights multiply, as in Keras
      end
    end
  end
  raise(("compile: there is no loss '%s'%s; there are %s, or a function(output, target, weight)"):format(tostring(loss),
    bridge.suggest(loss, LOSSES), table.concat(LOSSES, ", ")))
end

local function picker(what, fallback)
  if type(what) == "function" then return what end
  if type(what) == "string" then
    return function(batch)
      local v = batch[what]
      if v == nil then raise(("fit: the batch has no '%s'; say which part to use with compile { input = ..., target = ... }"):format(what)) end
      return v
    end
  end
  return fallback
end

local function default_input(batch) return batch.label == nil and batch.x or batch end
local function default_target(batch)
  local t = batch.label
  if t == nil then t = batch.y end
  if t == nil then raise "fit: the batch has neither label nor y; name the target with compile { target = ... }" end
  return t
end

---@param model table
---@param options table { optimizer = lt.optim.Adam { lr = 1e-3 }, loss = "bce_with_logits", metrics = { "auc" }, clip_norm = nil, input = nil, target = nil }
return function(model, options)
  options = bridge.options("compile", options, { "optimizer", "loss", "metrics", "clip_norm", "input", "target" })
  if not options.optimizer then raise "compile: optimizer must be given, for instance lt.optim.Adam { lr = 1e-3 }" end
  if not options.loss then raise "compile: loss must be given, for instance \"bce_with_logits\"" end
  local optimizer = options.optimizer
  if optimizer.pending then optimizer:bind(model) end
  local metrics = require "ltrain.metrics"
  local loss_name = type(options.loss) == "string" and options.loss or "custom"
  for _, name in ipairs(options.metrics or {}) do metrics.by_name(name, loss_name) end -- complain now, not after an epoch
  local compiled = {
    optimizer = optimizer, loss = loss_function(options.loss), loss_name = loss_name, metrics = options.metrics or {},
    clip_norm = options.clip_norm, input = picker(options.input, default_input), target = picker(options.target, default_target),
  }
  rawset(model, "compiled", compiled)
  return model
end
