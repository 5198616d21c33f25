--- Sample inputs for losses (core/ops/pointwise_loss.c, class_loss.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local A, B = { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }, { { 1.6, 0.7, -2.2 }, { 0.9, 0.1, 0.6 } }
local samples = {}

for _, name in ipairs { "mse_loss", "l1_loss", "huber_loss" } do
  samples[name] = function(lt)
    local list = {}
    for _, reduction in ipairs { "mean", "sum", "none" } do
      list[#list + 1] = { args = { t(lt, A), t(lt, B), { reduction = reduction } }, grad = { 1, 2 } }
    end
    list[#list + 1] = { args = { t(lt, A), t(lt, B) }, grad = { 1 } }
    list[#list + 1] = { args = { t(lt, 0.3), t(lt, 0.8) }, grad = { 1, 2 } }
    if name == "huber_loss" then list[#list + 1] = { args = { t(lt, A), t(lt, B), 0.7 }, grad = { 1, 2 } } end
    return list
  end
end
function samples.kl_div(lt)
  local logs, p = t(lt, { { -1.6, -1.2, -0.7 }, { -2.3, -0.2, -2.1 } }),
    t(lt, { { 0.5, 0.25, 0.25 }, { 0.2, 0.7, 0.1 } })
  local list = {}
  for _, reduction in ipairs { "mean", "sum", "none", "batchmean" } do
    list[#list + 1] = { args = { logs, p, { reduction = reduction } }, grad = { 1, 2 } }
    list[#list + 1] = { args = { logs, p, { reduction = reduction, log_target = true } }, grad = { 1, 2 } }
  end
  return list
end
function samples.bce_with_logits(lt)
  local y = t(lt, { { 0, 1, 0.25 }, { 1, 0.7, 0 } })
  local w, p = t(lt, { 1, 0.5, 2 }), t(lt, { { 3 }, { 0.5 } })
  local list = {}
  for _, reduction in ipairs { "mean", "sum", "none" } do
    list[#list + 1] = { args = { t(lt, A), y, { reduction = reduction } }, grad = { 1, 2 } }
    list[#list + 1] = { args = { t(lt, A), y, w, p, { reduction = reduction } }, grad = { 1, 2, 3, 4 } }
  end
  list[#list + 1] = { args = { t(lt, A), y, nil, 3 }, grad = { 1 } }
  list[#list + 1] = { args = { t(lt, A), y, w }, grad = { 1, 3 } }
  return list
end
for _, name in ipairs { "nll_loss", "cross_entropy" } do
  samples[name] = function(lt)
    local x = t(lt, { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 }, { -0.6, 2.4, 1.1 }, { 1.3, -0.4, 0.7 } })
    local ids, w = lt.tensor({ 2, 0, 1, 2 }, "int64"), t(lt, { 1, 0.5, 2 })
    local deep, deep_ids = lt.arange(1, 24, { dtype = "float64" }):reshape(2, 3, 4):sin(),
      lt.tensor({ { 0, 2, -100, 1 }, { 1, 1, 0, 2 } }, "int32")
    local list = {}
    for _, reduction in ipairs { "mean", "sum", "none" } do
      list[#list + 1] = { args = { x, ids, { reduction = reduction } }, grad = { 1 } }
      list[#list + 1] = { args = { x, ids, w, { reduction = reduction, normalize = "weights", ignore_index = 1 } },
        grad = { 1 } }
      list[#list + 1] = { args = { deep, deep_ids, w, { reduction = reduction } }, grad = { 1 } }
    end
    list[#list + 1] = { args = { t(lt, { 0.5, -1.2, 2.1 }), lt.tensor(1, "int64") }, grad = { 1 } }
    if name == "cross_entropy" then
      list[#list + 1] = { args = { x, ids, { label_smoothing = 0.2 } }, grad = { 1 } }
      list[#list + 1] = { args = { deep, deep_ids, w, { label_smoothing = 0.3, normalize = "weights" } }, grad = { 1 } }
    end
    return list
  end
end

return samples
