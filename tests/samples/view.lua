--- Sample inputs for views (core/ops/view.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local A = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }
local samples = {}

function samples.reshape(lt)
  return {
    { args = { t(lt, A), { 3, 2 } }, grad = { 1 } },
    { args = { t(lt, A), { -1 } }, grad = { 1 } },
    { args = { t(lt, A)[1][1], { 1, 1 } }, grad = { 1 } },
    { args = { t(lt, A):transpose(1, 2), { 6 } }, grad = { 1 } }, { args = { t(lt, A):slice(1, 1, 0), { 3, 0 } } },
  }
end
function samples.expand(lt)
  return { { args = { t(lt, { { 1 }, { 2 } }), { 2, 3 } }, grad = { 1 } },
  { args = { t(lt, A), { 2, -1, -1 } }, grad = { 1 } },
    { args = { t(lt, 1.5), { 2, 2 } }, grad = { 1 } } }
end
function samples.permute(lt)
  local x = lt.arange(1, 24, { dtype = "float64" }):reshape(2, 3, 4) * 0.3
  return {
    { args = { t(lt, A), { 2, 1 } }, grad = { 1 } },
    { args = { x, { 3, 1, 2 } }, grad = { 1 } },
    { args = { x, { 1, -1, -2 } }, grad = { 1 } },
  }
end
function samples.transpose(lt)
  return { { args = { t(lt, A) }, grad = { 1 } }, { args = { t(lt, { A, A }), 1, 3 }, grad = { 1 } } }
end
function samples.slice(lt)
  return {
    { args = { t(lt, A), 2, 2, 3 }, grad = { 1 } },
    { args = { t(lt, A), 2, 1, -1, 2 }, grad = { 1 } },
    { args = { t(lt, A), 1, -1 }, grad = { 1 } },
    { args = { t(lt, A), 1, 1, 0 } },
  }
end
function samples.select(lt)
  return {
    { args = { t(lt, A), 2, 3 }, grad = { 1 } },
    { args = { t(lt, A), 1, -1 }, grad = { 1 } },
  }
end
function samples.unsqueeze(lt)
  return {
    { args = { t(lt, A), 1 }, grad = { 1 } },
    { args = { t(lt, A), -1 }, grad = { 1 } },
  }
end
function samples.squeeze(lt)
  return {
    { args = { t(lt, { A }) }, grad = { 1 } },
    { args = { t(lt, { { { 1 }, { 2 } } }), { 1, 3 } }, grad = { 1 } },
  }
end
function samples.detach(lt) return { { args = { t(lt, A) } } } end

return samples
