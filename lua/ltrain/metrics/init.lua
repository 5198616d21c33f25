--- Metrics as mergeable states: update(logits, labels, weights), merge(other), value(), reset(). Values are taken after all
--- updates and merges, never averaged over batches; a value that does not exist (AUC of one class) is nil.
---   AUC        exact by rank sum, ties counted half, within a memory budget; the running form is a histogram
---   LogLoss, BinaryAccuracy, Calibration, NormalizedEntropy of logits; CategoricalAccuracy of class scores
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local C, check, raise = bridge.C, bridge.check, bridge.raise

local M = {}

-- Data pointer, dtype and count of a tensor's elements in row-major order; keeps the copy alive through the second result.
local function flat(t)
  local c = t:contiguous()
  return c:data(), c.dtype_, c:numel(), c
end

local function three(logits, labels, weights)
  local x, x_type, n, a = flat(logits)
  local y, y_type, m, b = flat(labels)
  if n ~= m then raise(("metrics: %d predictions and %d labels; there must be one label for each"):format(n, m)) end
  local w, w_type, c = nil, 0, nil
  if weights then w, w_type, m, c = flat(weights) end
  if weights and m ~= n then raise(("metrics: %d predictions and %d weights; there must be one weight for each"):format(n, m)) end
  return x, x_type, y, y_type, w, w_type, n, { a, b, c }
end

local function class(name, higher_is_better)
  local c = { name = name, higher_is_better = higher_is_better }
  c.__index = c
  return setmetatable(c, { __call = function(_, ...)
    local self = setmetatable({}, c)
    self:reset(...)
    return self
  end })
end

-- ---- binary metrics that share one state ----

local function binary(name, higher, value)
  local c = class(name, higher)
  function c:reset() self.state = ffi.new "lt_binary_metrics" end
  function c:update(logits, labels, weights)
    local x, xt, y, yt, w, wt, n, alive = three(logits, labels, weights)
    check(C.lt_binary_update(self.state, x, xt, y, yt, w, wt, n))
    return self, alive
  end
  function c:merge(other) C.lt_binary_merge(self.state, other.state) end
  function c:value()
    local out = ffi.new "double[1]"
    return value(self.state, out) and out[0] or nil
  end
  return c
end

M.LogLoss = binary("logloss", false, function(s, out) return C.lt_binary_logloss(s, out) end)
M.BinaryAccuracy = binary("accuracy", true, function(s, out) return C.lt_binary_accuracy(s, out) end)
M.Calibration = binary("calibration", nil, function(s, out) return C.lt_binary_calibration(s, out) end)
M.NormalizedEntropy = binary("normalized_entropy", false, function(s, out) return C.lt_binary_entropy(s, out) end)

-- ---- AUC ----

local AUC = class("auc", true)
M.AUC = AUC
local BUDGET = 512 * 2 ^ 20 -- bytes for the rows of an exact AUC, sorting included

---@param options table|nil { running = false, budget = 512 MiB }: running uses a fixed histogram of the logit
function AUC:reset(options)
  self.options = options and bridge.options("AUC", options, { "running", "budget" }) or self.options or {}
  if self.options.running then
    self.state = ffi.new "lt_auc_histogram"
  else
    local out = ffi.new "lt_auc *[1]"
    check(C.lt_auc_new(self.options.budget or BUDGET, out))
    self.state = ffi.gc(out[0], C.lt_auc_free)
  end
end
function AUC:update(logits, labels, weights)
  local x, xt, y, yt, w, wt, n, alive = three(logits, labels, weights)
  if self.options.running then check(C.lt_auc_histogram_update(self.state, x, xt, y, yt, w, wt, n))
  else check(C.lt_auc_update(self.state, x, xt, y, yt, w, wt, n)) end
  return self, alive
end
function AUC:merge(other)
  if self.options.running then C.lt_auc_histogram_merge(self.state, other.state)
  else check(C.lt_auc_merge(self.state, other.state)) end
end

---The AUC (nil when one class is missing), and a table { bound, exact, rows }.
function AUC:value()
  local out = ffi.new "lt_auc_value"
  if self.options.running then C.lt_auc_histogram_value(self.state, out) else check(C.lt_auc_result(self.state, out)) end
  if not out.defined then return nil end
  return out.auc, { bound = out.bound, exact = out.exact, rows = tonumber(out.rows) }
end

-- ---- class labels ----

local CategoricalAccuracy = class("accuracy", true)
M.CategoricalAccuracy = CategoricalAccuracy
function CategoricalAccuracy:reset() self.state = ffi.new "lt_class_accuracy" end
function CategoricalAccuracy:update(logits, labels, weights)
  local c, y = logits:contiguous(), labels:contiguous()
  local w = weights and weights:contiguous()
  if c:dim() ~= 2 or c:size(1) ~= y:numel() then
    raise(("accuracy: logits are [%s] and there are %d labels; logits must be [rows, classes]"):format(table.concat(c.shape, ", "), y:numel()))
  end
  if w and w:numel() ~= y:numel() then
    raise(("accuracy: %d labels and %d weights; there must be one weight for each"):format(y:numel(), w:numel()))
  end
  check(C.lt_class_accuracy_update(self.state, c:data(), c.dtype_, c:size(1), c:size(2), c:size(2), y:data(), y.dtype_, -100,
    w and w:data() or nil, w and w.dtype_ or 0))
  return self, { c, y, w } -- copies live until the call is over
end
function CategoricalAccuracy:merge(other) C.lt_class_accuracy_merge(self.state, other.state) end
function CategoricalAccuracy:value()
  local out = ffi.new "double[1]"
  return C.lt_class_accuracy_value(self.state, out) and out[0] or nil
end

-- ---- one-shot functions ----

---Exact AUC of scores against 0/1 labels; nil when one class is missing.
---@return number|nil
function M.auc(scores, labels, weights)
  local m = AUC()
  m:update(scores, labels, weights)
  return (m:value())
end
---Mean logloss of logits against labels.
function M.logloss(logits, labels, weights)
  local m = M.LogLoss()
  m:update(logits, labels, weights)
  return m:value()
end

local NAMES = { auc = "AUC", logloss = "LogLoss", accuracy = "BinaryAccuracy", calibration = "Calibration",
  normalized_entropy = "NormalizedEntropy" }

---A fresh metric by name, for the loss that the model is trained with.
---@param name string
---@param loss string
---@param running boolean|nil the form for the line while training
function M.by_name(name, loss, running)
  if loss == "cross_entropy" and name == "accuracy" then return CategoricalAccuracy() end
  local class_name = NAMES[name]
  if not class_name then
    local known = { "accuracy", "auc", "calibration", "logloss", "normalized_entropy" }
    raise(("metrics: there is no '%s'%s; there are %s"):format(tostring(name), bridge.suggest(name, known), table.concat(known, ", ")))
  end
  if loss ~= "bce_with_logits" then raise(("metrics: '%s' needs the loss bce_with_logits, this model has %s"):format(name, tostring(loss))) end
  if name == "auc" then return AUC { running = running } end
  return M[class_name]()
end

return M
