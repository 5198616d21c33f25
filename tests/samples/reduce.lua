--- Sample inputs for reductions and running sums (core/ops/sum.c, statistics.c, extreme.c, running.c).
local function t(lt, values) return lt.tensor(values, "float64") end

-- No two neighbours are closer than the steps of finite differences; no zero among them.
local A = { { { 0.5, -1.2, 2.1, 0.9 }, { 1.4, 0.3, -0.8, 1.7 }, { -0.6, 2.4, 1.1, -1.9 } },
  { { 1.3, -0.4, 0.7, -2.2 }, { 0.2, 1.9, -1.5, 0.8 }, { -1.1, 0.6, 2.3, 1.6 } } }
local ZEROS = { { 0.5, 0, 2.1 }, { 0, 0.3, 0 }, { 1.4, -0.8, 0.7 } }
local samples = {}

-- All dims, one, several, kept, a transposed input, a number, and more elements than one block of the engine.
local function usual(lt, grad)
  return {
    { args = { t(lt, A) }, grad = grad },
    { args = { t(lt, A), 2 }, grad = grad },
    { args = { t(lt, A), { 1, -1 }, true }, grad = grad },
    { args = { t(lt, A):transpose(1, 3), 1 }, grad = grad },
    { args = { t(lt, 1.5) }, grad = grad },
    { args = { (lt.arange(1, 1400, { dtype = "float64" }) * 0.37):sin():reshape(2, 700), -1 } },
  }
end

for _, name in ipairs { "sum", "mean", "logsumexp", "amax", "amin" } do
  samples[name] = function(lt) return usual(lt, { 1 }) end
end
function samples.sum_to(lt)
  return { { args = { t(lt, A), { 4 } }, grad = { 1 } }, { args = { t(lt, A), { 1, 3, 1 } }, grad = { 1 } },
    { args = { t(lt, A), { 2, 3, 4 } }, grad = { 1 } } }
end
for _, name in ipairs { "var", "std" } do
  samples[name] = function(lt)
    local list = usual(lt, { 1 })
    list[5] = { args = { t(lt, { 1.5 }), { correction = 0 } } }
    list[#list + 1] = { args = { t(lt, A), { 1, 3 }, false, 0 }, grad = { 1 } }
    return list
  end
end
function samples.norm(lt)
  local list = {}
  for _, p in ipairs { 2, 1, 3, 1.5, math.huge } do
    list[#list + 1] = { args = { t(lt, A), p }, grad = { 1 } }
    list[#list + 1] = { args = { t(lt, A), p, { 1, 3 }, true }, grad = { 1 } }
  end
  list[#list + 1] = { args = { t(lt, A), 0, 2 }, grad = { 1 }, second = false }
  return list
end
function samples.prod(lt)
  local list = usual(lt, { 1 })
  list[#list] = nil
  list[#list + 1] = { args = { t(lt, ZEROS), 1 }, grad = { 1 } } -- one zero, two, none
  list[#list + 1] = { args = { t(lt, ZEROS), 2 }, grad = { 1 } }
  return list
end
for _, name in ipairs { "max", "min" } do
  samples[name] = function(lt)
    return {
      { args = { t(lt, A), 1 }, grad = { 1 } },
      { args = { t(lt, A), -1, true }, grad = { 1 } },
      { args = { t(lt, A):transpose(1, 3), 2 }, grad = { 1 } },
    }
  end
end
for _, name in ipairs { "argmax", "argmin" } do
  samples[name] = function(lt)
    return { { args = { t(lt, A) } }, { args = { t(lt, A), 2, true } }, { args = { t(lt, A):transpose(1, 3), 2 } } }
  end
end
for _, name in ipairs { "any", "all", "count_nonzero" } do
  samples[name] = function(lt) return { { args = { t(lt, ZEROS) } }, { args = { t(lt, ZEROS), 1 } },
    { args = { t(lt, ZEROS), 2, true } } } end
end
function samples.cumsum(lt)
  return { { args = { t(lt, A), 2 }, grad = { 1 } }, { args = { t(lt, A), -1, true }, grad = { 1 } },
    { args = { t(lt, A):transpose(1, 3), 1 }, grad = { 1 } } }
end
function samples.cumprod(lt)
  return {
    { args = { t(lt, A), 2 }, grad = { 1 }, second = false },
    { args = { t(lt, A), -1, true }, grad = { 1 }, second = false },
    { args = { t(lt, ZEROS), 1 }, grad = { 1 }, second = false },
    { args = { t(lt, ZEROS), 2, true }, grad = { 1 }, second = false },
  }
end

return samples
