--- Initial values by their usual names: each writes into a tensor in place and returns it. Fans are counted as for a
--- linear weight [out, in]; sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming).
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local f, raise = op.functions, bridge.raise

local M = {}

local function fans(t)
  local shape = t.shape
  if #shape < 2 then raise(("initializer: the tensor is [%s]; fans need two dims, [out, in]"):format(table.concat(shape, ", "))) end
  local receptive = 1
  for d = 3, #shape do receptive = receptive * shape[d] end
  return shape[2] * receptive, shape[1] * receptive
end

local function quietly(fn) return require("ltrain.autograd").no_grad(fn) end

function M.zeros(t) return quietly(function() return f.zero_(t) end) end
function M.ones(t) return quietly(function() return f.fill_(t, 1) end) end
function M.constant(t, value) return quietly(function() return f.fill_(t, value) end) end

---Uniform in [low, high).
function M.uniform(t, low, high) return quietly(function() return f.uniform_(t, low or 0, high or 1) end) end

---Normal with the given mean and standard deviation.
function M.normal(t, mean, std) return quietly(function() return f.normal_(t, mean or 0, std or 1) end) end

---Uniform in +-gain * sqrt(6 / (fan_in + fan_out)).
function M.xavier_uniform(t, gain)
  local fan_in, fan_out = fans(t)
  local a = (gain or 1) * math.sqrt(6 / (fan_in + fan_out))
  return M.uniform(t, -a, a)
end

---Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)).
function M.xavier_normal(t, gain)
  local fan_in, fan_out = fans(t)
  return M.normal(t, 0, (gain or 1) * math.sqrt(2 / (fan_in + fan_out)))
end

---Uniform in +-sqrt(3) * gain / sqrt(fan_in); gain sqrt(2) suits relu. nn.Linear's default is gain 1/sqrt(3).
function M.kaiming_uniform(t, gain)
  local fan_in = fans(t)
  local a = math.sqrt(3) * (gain or math.sqrt(2)) / math.sqrt(fan_in)
  return M.uniform(t, -a, a)
end

---Normal with standard deviation gain / sqrt(fan_in); gain sqrt(2) suits relu.
function M.kaiming_normal(t, gain)
  local fan_in = fans(t)
  return M.normal(t, 0, (gain or math.sqrt(2)) / math.sqrt(fan_in))
end

local NAMES = { "zeros", "ones", "uniform", "normal", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal" }

---Initialises by name ("xavier_normal"), by { "normal", 0, 0.01 }, or by a function of the tensor.
function M.apply(t, how)
  if type(how) == "function" then return how(t) end
  local name, a, b = how, nil, nil
  if type(how) == "table" then name, a, b = how[1], how[2], how[3] end
  for _, known in ipairs(NAMES) do
    if known == name then return M[name](t, a, b) end
  end
  if name == "constant" then return M.constant(t, a) end
  raise(("initializer: there is no '%s'%s; there are %s, constant"):format(tostring(name), bridge.suggest(name, NAMES), table.concat(NAMES, ", ")))
end

return M
