--- Sample inputs for copies and conversions (core/ops/convert.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local A = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }
local samples = {}

function samples.clone(lt)
  return {
    { args = { t(lt, A) }, grad = { 1 } },
    { args = { t(lt, A):transpose(1, 2) }, grad = { 1 } },
  }
end
function samples.to(lt)
  return {
    { args = { t(lt, A), "float64" }, grad = { 1 } },
    { args = { t(lt, A), "int64" } },
  }
end
function samples.copy(lt)
  return { { args = { t(lt, A), t(lt, { 3, 1, 2 }) }, grad = { 1, 2 } },
  { args = { t(lt, A), t(lt, A) * 2 }, grad = { 2 } },
    { args = { t(lt, A), 1.5 } } }
end

return samples
