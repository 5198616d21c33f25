--- Sample inputs for joining, picking and triangles (core/ops/join.c, pick.c, triangle.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local A, B = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }, { { 1.5, 0.7, -2.2 }, { 0.9, -1.1, 0.6 } }
local samples = {}

function samples.cat(lt)
  return {
    { args = { { t(lt, A), t(lt, B) }, 1 }, grad = { 1 } },
    { args = { { t(lt, A), t(lt, B), t(lt, A):slice(2, 1, 2) }, -1 }, grad = { 1 } },
    { args = { { t(lt, A):slice(2, 1, 0), t(lt, B), t(lt, A):slice(2, 1, 0) }, 2 }, grad = { 1 } }, -- empty parts
  }
end
function samples.stack(lt)
  return {
    { args = { { t(lt, A), t(lt, B) } }, grad = { 1 } },
    { args = { { t(lt, A), t(lt, B) }, -1 }, grad = { 1 } },
    { args = { { t(lt, A)[1][1], t(lt, B)[1][1] } }, grad = { 1 } }, -- numbers
  }
end
function samples.flip(lt)
  return { { args = { t(lt, A), 2 }, grad = { 1 } },
  { args = { t(lt, A), { 1, -1 } }, grad = { 1 } },
  { args = { t(lt, A) }, grad = { 1 } },
    { args = { t(lt, A):slice(1, 1, 0), 1 } } }
end
function samples.tile(lt)
  return { { args = { t(lt, A), { 2, 3 } }, grad = { 1 } }, { args = { t(lt, A), { 2, 1, 2 } }, grad = { 1 } },
    { args = { t(lt, A)[1][1], { 3 } }, grad = { 1 } }, { args = { t(lt, A), { 0, 2 } } } }
end
function samples.pad(lt)
  local list = {}
  for _, mode in ipairs { "constant", "reflect", "replicate" } do
    list[#list + 1] = { args = { t(lt, A), { 2, 1 }, mode }, grad = { 1 } }
    list[#list + 1] = { args = { t(lt, A), { 1, -1, 1, 0 }, mode }, grad = { 1 } } -- crops on one side
  end
  list[#list + 1] = { args = { t(lt, A), { 0, 2 }, { value = 1.5 } }, grad = { 1 } }
  list[#list + 1] = { args = { t(lt, A):slice(1, 1, 0), { 1, 1, 2, 0 } } }
  return list
end
for _, name in ipairs { "tril", "triu" } do
  samples[name] = function(lt)
    local batch = lt.arange(1, 24, { dtype = "float64" }):reshape(2, 3, 4) * 0.3
    return { { args = { t(lt, A) }, grad = { 1 } },
    { args = { batch, 1 }, grad = { 1 } },
    { args = { batch, -1 }, grad = { 1 } },
      { args = { batch, 9 } }, { args = { t(lt, A):slice(2, 1, 0) } } }
  end
end
function samples.diagonal(lt)
  local x = lt.arange(1, 24, { dtype = "float64" }):reshape(2, 3, 4) * 0.3
  return { { args = { t(lt, A) }, grad = { 1 } },
  { args = { t(lt, A), 1 }, grad = { 1 } },
  { args = { x, -1, 1, 3 }, grad = { 1 } },
    { args = { t(lt, A), 9 } } }
end
function samples.diag_embed(lt)
  return {
    { args = { t(lt, A) }, grad = { 1 } },
    { args = { t(lt, A), -2 }, grad = { 1 } },
    { args = { t(lt, A):slice(2, 1, 0) } },
  }
end

return samples
