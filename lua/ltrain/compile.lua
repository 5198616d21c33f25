--- model:compile: ties a model to its optimizer, loss and metrics, and says which parts of a batch go where. Click data
--- (batch.categorical, batch.numeric) goes to the model whole and batch.label is the target; of other data batch.x goes
--- to the model and batch.y, or batch.label, is the target; `input` and `target` (names or functions of the batch) say
--- otherwise. batch.weight, where there is one, holds sample weights.
local bridge = require "ltrain.ffi"
local losses = require "ltrain.losses"
local raise, fail = bridge.raise, bridge.fail

local OPTIONS = { "optimizer", "loss", "metrics", "clip_norm", "input", "target", "normalize" }

local function is_clicks(batch) return batch.categorical ~= nil or batch.numeric ~= nil end

local function default_input(batch)
  if is_clicks(batch) or batch.x == nil then return batch end
  return batch.x
end

local function default_target(batch)
  local t = batch.label
  if t == nil and not is_clicks(batch) then t = batch.y end
  if t == nil then raise "fit: the batch has neither label nor y; name the target with compile { target = ... }" end
  return t
end

local function picker(name, what, default)
  if what == nil or type(what) == "function" then return what or default end
  if type(what) ~= "string" then
    fail("compile: %s is a %s; it must be the name of a part of the batch or a function of it", name, type(what))
  end
  return function(batch)
    local v = batch[what]
    if v == nil then fail("fit: the batch has no '%s'; name the %s with compile { %s = ... }", what, name, name) end
    return v
  end
end

local function check_metrics(list, loss_name)
  if list == nil then return {} end
  if type(list) ~= "table" then fail("compile: metrics is a %s; it must be a list of names, { \"auc\" }", type(list)) end
  local metrics = require "ltrain.metrics"
  local seen = {}
  for _, name in ipairs(list) do
    metrics.by_name(name, loss_name) -- complain now, not after an epoch
    if seen[name] then fail("compile: the metric '%s' is there twice", name) end
    seen[name] = true
  end
  return list
end

---@param model table
---@param options table { optimizer = lt.optim.Adam { lr = 1e-3 }, loss = "bce_with_logits" or function(output, target,
--- weight) -> loss, divisor, metrics = { "auc" }, clip_norm = nil, input = nil, target = nil, normalize = "rows" }
local function compile(model, options)
  options = bridge.options("compile", options, OPTIONS)
  local optimizer = options.optimizer
  if not optimizer then raise "compile: optimizer must be given, for instance lt.optim.Adam { lr = 1e-3 }" end
  if type(optimizer) ~= "table" or not optimizer.step then
    fail("compile: optimizer is a %s; it must be an optimizer, for instance lt.optim.Adam { lr = 1e-3 }", type(optimizer))
  end
  if not options.loss then raise "compile: loss must be given, for instance \"bce_with_logits\"" end
  local clip = options.clip_norm
  if clip ~= nil and not (type(clip) == "number" and clip > 0) then
    fail("compile: clip_norm is %s; it must be a number above 0", tostring(clip))
  end
  local loss_name = type(options.loss) == "string" and options.loss or "custom"
  local loss = losses.by_name(options.loss, options.normalize)
  local metrics = check_metrics(options.metrics, loss_name)
  if optimizer.pending then optimizer:bind(model) end
  rawset(model, "compiled", { optimizer = optimizer, loss = loss, loss_name = loss_name, metrics = metrics, clip_norm = clip,
    input = picker("input", options.input, default_input), target = picker("target", options.target, default_target) })
  return model
end

return setmetatable({ default_input = default_input }, { __call = function(_, ...) return compile(...) end })
