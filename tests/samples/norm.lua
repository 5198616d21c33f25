--- Sample inputs for normalisation (core/ops/layer_norm.c, batch_norm.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local samples = {}
local function wave(lt, ...) return (lt.arange(1, 24, { dtype = "float64" }) * 1.9):sin():reshape(...) end

function samples.layer_norm(lt)
  local w, b = t(lt, { 1.2, 0.5, -0.7, 2 }), t(lt, { 0.1, -0.3, 0.2, 0.6 })
  return {
    { args = { wave(lt, 6, 4), w, b }, grad = { 1, 2, 3 } },
    { args = { wave(lt, 2, 3, 4), w }, grad = { 1, 2 } },
    { args = { wave(lt, 2, 3, 4), nil, b }, grad = { 1, 3 } },
    { args = { wave(lt, 3, 2, 4), wave(lt, 6, 4):slice(1, 1, 2), wave(lt, 12, 2):slice(1, 2, 5):reshape(2, 4),
      { eps = 0.1 } }, grad = { 1, 2, 3 } },
    { args = { wave(lt, 4, 6), { dims = 2 } }, grad = { 1 } },
    { args = { wave(lt, 24) }, grad = { 1 } },
  }
end
function samples.batch_norm(lt)
  local w, b = t(lt, { 1.2, 0.5, -0.7 }), t(lt, { 0.1, -0.3, 0.2 })
  return {
    { args = { wave(lt, 8, 3), w, b }, grad = { 1, 2, 3 } },
    { args = { wave(lt, 2, 3, 4), w, b }, grad = { 1, 2, 3 } },
    { args = { wave(lt, 2, 3, 2, 2), { eps = 0.1 } }, grad = { 1 } },
    { args = { wave(lt, 8, 3), w }, grad = { 1, 2 } },
  }
end
function samples.batch_norm_eval(lt)
  local m, v, w, b = t(lt, { 0.3, -0.1, 0.2 }), t(lt, { 1.5, 0.4, 0.9 }), t(lt, { 1.2, 0.5, -0.7 }),
    t(lt, { 0.1, -0.3, 0.2 })
  return {
    { args = { wave(lt, 8, 3), m, v, w, b }, grad = { 1, 2, 3, 4, 5 } },
    { args = { wave(lt, 2, 3, 4), m, v, w, b }, grad = { 1, 2, 3, 4, 5 } },
    { args = { wave(lt, 2, 3, 4), m, v }, grad = { 1, 2, 3 } },
  }
end

return samples
