--- What the click models share: their options, the bias, numeric features in the linear part, and where ids and numbers
--- are found in a batch.
local Module = require "ltrain.nn.module"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local ffi = require "ffi"

local M = {}

---Checks a model's configuration: features and the names given.
function M.check(name, config, known)
  local all = { "features" }
  for _, key in ipairs(known) do all[#all + 1] = key end
  config = bridge.options(name, config, all)
  if type(config.features) ~= "table" or #config.features == 0 then
    bridge.raise(("%s: features must be given, for instance schema:features()"):format(name))
  end
end

---Names of the numeric features, in order.
function M.numeric(features)
  local names = {}
  for _, feature in ipairs(features) do
    if feature.kind == "numeric" then names[#names + 1] = feature.name end
  end
  return names
end

---Bias and numeric weights; the configuration that the model's file carries.
function M.common(self, config, name)
  self.bias = Module.Parameter(op.functions.zeros { 1 })
  self.n_numeric = #M.numeric(config.features)
  if self.n_numeric > 0 then self.numeric_weight = Module.Parameter(op.functions.zeros { self.n_numeric }) end
  rawset(self, "model_name", name)
  rawset(self, "gives_logits", true) -- predict turns them into probabilities
  local saved = {}
  for key, value in pairs(config) do saved[key] = value end
  saved.features = {}
  for i, f in ipairs(config.features) do saved.features[i] = { name = f.name, size = f.size, kind = f.kind } end
  rawset(self, "config", saved)
  rawset(self, "schema", config.features.schema) -- schema:features() knows where it comes from
end

---The ids of a batch [batch, features]; a tensor is taken as the ids themselves.
function M.ids(batch)
  return ffi.istype(bridge.handle, batch) and batch or batch.categorical
end

---Numbers of a batch [batch, numeric], or nil.
function M.numbers(self, batch)
  return self.n_numeric > 0 and batch.numeric or nil
end

---Adds bias and the numeric features' linear part to a logit [batch].
function M.finish(self, batch, logit)
  local numbers = M.numbers(self, batch)
  if numbers then logit = logit + op.functions.matmul(numbers, self.numeric_weight) end
  return logit + self.bias
end

---Embeddings [batch, features * dim] and numbers side by side.
function M.with_numbers(self, batch, x)
  local numbers = M.numbers(self, batch)
  return numbers and op.functions.cat({ x, numbers }, 2) or x
end

return M
