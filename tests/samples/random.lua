--- Sample inputs for operators that draw random numbers (core/ops/draw.c, dropout.c). Dropout's gradient can be
--- compared with differences only where nothing is drawn: p is 0 or 1; random_spec.lua checks the rest under a seed.
local function t(lt, values) return lt.tensor(values, "float64") end

local A = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }
local samples = {}

for _, name in ipairs { "rand", "randn" } do
  samples[name] = function() return { { args = { { 2, 3 } } },
  { args = { {}, "float64" } },
  { args = { { 0, 2 } } } } end
end
for _, name in ipairs { "uniform", "normal", "truncated_normal" } do
  samples[name] = function(lt) return { { args = { t(lt, A) } }, { args = { t(lt, A), -1, 2 } } } end
end
function samples.randint() return { { args = { 0, 5, { 2, 3 } } }, { args = { -3, -2, {} } } } end
function samples.randperm() return { { args = { 7 } }, { args = { 0 } } } end
function samples.bernoulli(lt)
  return {
    { args = { t(lt, { 0, 0.5, 1 }) } },
    { args = { 0.3, { 2, 2 } } },
    { args = { t(lt, { 0, 0.5, 1 }), { 2, 3 } } },
  }
end
function samples.multinomial(lt)
  return { { args = { t(lt, { 1, 2, 0 }), 2 } }, { args = { t(lt, { { 1, 2 }, { 0, 3 } }), 4, true } } }
end
function samples.dropout(lt)
  return { { args = { t(lt, A), 0 }, grad = { 1 } }, { args = { t(lt, A), 1 }, grad = { 1 } }, { args = { t(lt, A) } } }
end

return samples
