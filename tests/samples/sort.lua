--- Sample inputs for operators on order (core/ops/sort.c). Values differ by more than the steps of finite differences.
local function t(lt, values) return lt.tensor(values, "float64") end

local A = { { 0.5, -1.25, 2, 0.5 }, { 1.5, 0.25, -0.75, 4 } }
local D = { { 0.5, -1.25, 2, 0.75 }, { 1.5, 0.25, -0.75, 4 } } -- no ties
local samples = {}

function samples.sort(lt)
  return {
    { args = { t(lt, D) }, grad = { 1 } },
    { args = { t(lt, D), 1, true }, grad = { 1 } },
    { args = { t(lt, A), -1, true } },
    { args = { lt.zeros({ 2, 0 }, "float64") } },
    { args = { lt.zeros({ 0, 2 }, "float64") } },
  }
end
function samples.topk(lt)
  return {
    { args = { t(lt, D), 2 }, grad = { 1 } },
    { args = { t(lt, D), 1, 1, false }, grad = { 1 } },
    { args = { t(lt, A), 4 } },
    { args = { t(lt, A), 0 } }, { args = { lt.zeros({ 0, 2 }, "float64"), 1 } },
  }
end
function samples.unique(lt)
  return { { args = { t(lt, A) } }, { args = { lt.zeros({ 0 }, "float64") } }, { args = { t(lt, 3) } } }
end
function samples.searchsorted(lt)
  return {
    { args = { t(lt, { -1, 0.5, 0.5, 2 }), t(lt, A) } }, { args = { t(lt, { -1, 0.5, 0.5, 2 }), t(lt, A), true } },
    { args = { t(lt, { { 0, 1 }, { 1, 2 } }), t(lt, A) } },
    { args = { t(lt, { 1, 2 }), 1.5 } },
    { args = { lt.zeros({ 0 }, "float64"), t(lt, A) } },
  }
end

return samples
