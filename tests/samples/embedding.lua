--- Sample inputs for look-ups and the interaction term (core/ops/embedding.c, embedding_bag.c, field_embedding.c,
--- interaction.c).
local function t(lt, values) return lt.tensor(values, "float64") end
local function ids(lt, values) return lt.tensor(values, "int64") end

local TABLE = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 }, { -0.6, 0.9, 0.1 }, { 2.2, -0.4, 1.5 } }
local NO_HALVES = { bfloat16 = false, float16 = false } -- tables that are trained are float32 or float64
local samples = {}

function samples.embedding(lt)
  return {
    { args = { ids(lt, { 2, 0, 2, 3, 2 }), t(lt, TABLE) }, grad = { 2 } },
    { args = { ids(lt, { { 1, 0 }, { 3, 1 } }):to "int32", t(lt, TABLE), { padding = 1 } } },
    { args = { lt.tensor(3, "int64"), t(lt, TABLE) }, grad = { 2 } },
    { args = { lt.zeros({ 0, 2 }, "int64"), t(lt, TABLE) } },
  }
end

function samples.embedding_bag(lt)
  local list = ids(lt, { 2, 0, 2, 3, 1, 1 })
  return {
    { args = { list, t(lt, TABLE), ids(lt, { 0, 2, 2, 5 }), { mode = "sum" } }, grad = { 2 }, dtypes = NO_HALVES },
    { args = { list, t(lt, TABLE), ids(lt, { 0, 2, 2, 5 }):to "int32", { mode = "mean" } }, grad = { 2 },
      dtypes = NO_HALVES },
    { args = { list, t(lt, TABLE), ids(lt, { 0, 4 }), { mode = "max" } }, grad = { 2 }, dtypes = NO_HALVES },
    { args = { list, t(lt, TABLE), ids(lt, { 0, 3 }), t(lt, { 0.5, -2, 1.5, 3, 0.1, 1 }), { mode = "sum" } },
      grad = { 2, 4 }, dtypes = NO_HALVES },
    { args = { ids(lt, { { 0, 1 }, { 3, 3 } }), t(lt, TABLE), nil, t(lt, { { 1, 2 }, { -1, 0.5 } }),
      { mode = "sum" } }, grad = { 2, 4 },
      dtypes = NO_HALVES },
    { args = { ids(lt, { { 0, 1, 2 }, { 3, 3, 1 } }), t(lt, TABLE) }, grad = { 2 }, dtypes = NO_HALVES },
    { args = { ids(lt, {}), t(lt, TABLE), ids(lt, { 0, 0 }) }, dtypes = NO_HALVES },
  }
end

function samples.field_embedding(lt)
  local offsets, sizes = ids(lt, { 0, 1, 3 }), ids(lt, { 1, 2, 1 })
  local some = ids(lt, { { 0, 1, 0 }, { 0, 0, 0 }, { 0, 1, 0 } })
  return {
    { args = { some, t(lt, TABLE), offsets, sizes }, grad = { 2 }, dtypes = NO_HALVES },
    { args = { some, t(lt, TABLE), offsets, sizes, { linear = true } }, grad = { 2 }, dtypes = NO_HALVES },
    { args = { some:to "int32", t(lt, TABLE), offsets, sizes, { linear = true, fm = true } }, grad = { 2 },
      dtypes = NO_HALVES },
    -- two features that share all their rows
    { args = { ids(lt, { { 3, 2 }, { 2, 2 } }), t(lt, TABLE), ids(lt, { 0, 0 }), ids(lt, { 4, 4 }), { fm = true } },
      grad = { 2 }, dtypes = NO_HALVES },
    { args = { lt.zeros({ 0, 3 }, "int64"), t(lt, TABLE), offsets, sizes, { linear = true, fm = true } },
      dtypes = NO_HALVES },
  }
end

function samples.fm_interaction(lt)
  local x = t(lt, { { { 0.5, -1.2 }, { 2.1, 1.4 }, { 0.3, -0.8 } }, { { -0.6, 0.9 }, { 0.1, 2.2 }, { -0.4, 1.5 } } })
  return {
    { args = { x }, grad = { 1 }, dtypes = NO_HALVES },
    { args = { x:reshape(2, 6), 3 }, grad = { 1 }, dtypes = NO_HALVES },
    { args = { x:reshape(2, 6), { fields = 1 } }, dtypes = NO_HALVES },
    { args = { lt.zeros({ 0, 3, 2 }, "float64") }, dtypes = NO_HALVES },
  }
end

return samples
