--- Sample inputs for operators on ids, masks and counts (core/ops/scatter.c, count.c, mask.c, rows.c).
local function t(lt, values) return lt.tensor(values, "float64") end
local function ids(lt, values) return lt.tensor(values, "int64") end

local A = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }
local samples = {}

function samples.gather(lt)
  return {
    { args = { t(lt, A), 2, ids(lt, { { 0, 2, 2, 1 }, { 1, 1, 1, 0 } }) }, grad = { 1 } },
    { args = { t(lt, A), 1, ids(lt, { { 1, 0 } }) }, grad = { 1 } }, -- narrower than x in the other dim
    { args = { t(lt, A), -1, ids(lt, { { 0 }, { 2 } }):to "int32" }, grad = { 1 } },
    { args = { t(lt, A), 2, lt.zeros({ 2, 0 }, "int64") } },
  }
end
for _, name in ipairs { "scatter", "scatter_add" } do
  samples[name] = function(lt)
    return {
      -- an id twice in a line
      { args = { t(lt, A), 2, ids(lt, { { 0, 2 }, { 1, 1 } }), t(lt, { { 3.5, -1 }, { 0.25, 4 } }) }, grad = { 1, 4 } },
      { args = { t(lt, A), 1, ids(lt, { { 1, 0 } }), t(lt, { { 3.5, -1 } }) }, grad = { 1, 4 } },
      { args = { t(lt, A), 2, lt.zeros({ 2, 0 }, "int64"), lt.zeros({ 2, 0 }, "float64") } },
    }
  end
end
function samples.index_select(lt)
  return {
    { args = { t(lt, A), 1, ids(lt, { 1, 0, 1 }) }, grad = { 1 } },
    { args = { t(lt, A), 2, ids(lt, { 2, 2, 0 }):to "int32" }, grad = { 1 } },
    { args = { t(lt, A):transpose(1, 2), 2, ids(lt, { 1 }) }, grad = { 1 } },
    { args = { t(lt, A), 1, ids(lt, {}) } },
  }
end
function samples.index_add(lt)
  return {
    { args = { t(lt, A), ids(lt, { 1, 1, 0 }), t(lt, { { 1, 2, 3 }, { 0.5, -1, 2 }, { 4, 4, 1 } }) }, grad = { 1, 3 } },
    { args = { t(lt, { 1, 2, 3 }), ids(lt, { 2, 2 }), t(lt, { 0.5, 0.25 }) }, grad = { 1, 3 } },
    { args = { t(lt, A), ids(lt, {}), lt.zeros({ 0, 3 }, "float64") } },
  }
end
function samples.masked_fill(lt)
  return {
    { args = { t(lt, A), lt.tensor { { true, false, true }, { false, false, true } }, -1.5 }, grad = { 1 } },
    { args = { t(lt, A), lt.tensor { true, false, true }, 0.5 }, grad = { 1 } }, -- the mask broadcasts
    -- x broadcasts
    { args = { t(lt, { 1, 2, 3 }), lt.tensor { { true, false, true }, { false, false, true } }, 0.5 }, grad = { 1 } },
  }
end
function samples.masked_select(lt)
  return {
    { args = { t(lt, A), lt.tensor { { true, false, true }, { false, false, true } } }, grad = { 1 } },
    { args = { t(lt, A), lt.zeros({ 2, 3 }, "bool") } },
  }
end
function samples.nonzero(lt)
  return { { args = { t(lt, { { 0, 1.5 }, { -2, 0 } }) } },
  { args = { lt.tensor { true, false } } },
  { args = { lt.zeros({ 0, 2 }, "float64") } },
    { args = { t(lt, 3) } } }
end
function samples.one_hot(lt)
  return {
    { args = { ids(lt, { { 2, 0 }, { 1, 1 } }), 3 } },
    { args = { ids(lt, {}), 4 } },
    { args = { ids(lt, 1), 2 } },
  }
end
function samples.bincount(lt)
  return {
    { args = { ids(lt, { 2, 0, 2, 5 }) } },
    { args = { ids(lt, { 2, 0, 2 }), t(lt, { 0.5, 1, 0.25 }), 6 } },
    { args = { ids(lt, {}) } },
  }
end

return samples
