--- Sample inputs for elementwise operators: most get the same general values; those with a domain or a kink get their own.
local function t(lt, values) return lt.tensor(values, "float64") end

local DOMAIN = {
  log = { 0.3, 1.2, 4.5 }, log1p = { -0.6, 0.2, 3.1 }, sqrt = { 0.2, 1.7, 5 }, rsqrt = { 0.4, 1.1, 3 }, asin = { -0.7, 0.2, 0.8 },
  acos = { -0.7, 0.2, 0.8 }, logit = { 0.1, 0.5, 0.83 }, reciprocal = { -1.5, 0.7, 2 }, tan = { -1.1, 0.3, 0.9 },
  hardswish = { -4, -1.5, 0.7, 3.6 }, hardsigmoid = { -4, -1.5, 0.7, 3.6 },
}
local PARAMETERS = { softplus = { 1.7 }, leaky_relu = { 0.2 }, elu = { 0.8 }, hardtanh = { -0.9, 1.1 }, clamp = { -0.9, 1.1 } }

local samples = {}
for _, name in ipairs { "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
  "cosh", "tanh", "erf", "erfc", "sigmoid", "logsigmoid", "softplus", "logit", "leaky_relu", "elu", "selu", "gelu", "gelu_tanh", "silu",
  "mish", "softsign", "hardsigmoid", "hardswish", "relu", "hardtanh", "clamp", "neg", "abs", "square" } do
  samples[name] = function(lt)
    local list = { { args = { t(lt, DOMAIN[name] or { -2.3, -0.7, 0.4, 1.3, 0.05 }), unpack(PARAMETERS[name] or {}) }, grad = { 1 } } }
    if PARAMETERS[name] then list[2] = { args = { t(lt, DOMAIN[name] or { -2.3, -0.7, 0.4, 1.3 }) }, grad = { 1 } } end
    return list
  end
end
for _, name in ipairs { "sign", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite", "logical_not" } do
  samples[name] = function(lt) return { { args = { t(lt, { -2.3, -0.7, 0, 0.4, 1.5, 2.5, 1 / 0 }) } } } end
end

local A, B = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }, { { 1.5, 0.7, -2.2 }, { 0.9, -1.1, 0.6 } }
for _, name in ipairs { "add", "sub", "mul", "div", "atan2", "minimum", "maximum" } do
  samples[name] = function(lt)
    return {
      { args = { t(lt, A), t(lt, B) }, grad = { 1, 2 } },
      { args = { t(lt, A), t(lt, { 1.5, 0.7, -2.2 }) }, grad = { 1, 2 } }, -- broadcast along rows
      { args = { t(lt, { { 0.4 }, { 1.9 } }), t(lt, { 1.5, 0.7, -2.2 }) }, grad = { 1, 2 } }, -- both stretched
      { args = { t(lt, A), 1.25 }, grad = { 1 } },
    }
  end
end
function samples.pow(lt)
  return { { args = { t(lt, { 0.5, 1.2, 2.1 }), t(lt, { 1.5, -0.7, 2 }) }, grad = { 1, 2 } }, { args = { t(lt, { -0.5, 1.2 }), 3 }, grad = { 1 } } }
end
function samples.mod(lt) return { { args = { t(lt, { 5.3, -4.6, 2.2 }), t(lt, { 2, 3.5, -1.5 }) }, grad = { 1, 2 } } } end
for _, name in ipairs { "floordiv", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor" } do
  samples[name] = function(lt) return { { args = { t(lt, { 1, 0, 2.5, -3 }), t(lt, { 1, 2, 0.5, -3 }) } } } end
end
samples["where"] = function(lt)
  return { { args = { lt.tensor { { true, false, true }, { false, false, true } }, t(lt, A), t(lt, { 1.5, 0.7, -2.2 }) }, grad = { 2, 3 } } }
end

return samples
