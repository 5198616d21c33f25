--- Sample inputs for the softmax family (core/ops/softmax.c).
local function t(lt, values) return lt.tensor(values, "float64") end

local A = { { { 0.5, -1.2, 2.1 }, { 1.4, 0.3, -0.8 } }, { { -0.6, 2.4, 1.1 }, { 1.3, -0.4, 0.7 } } }
local samples = {}

for _, name in ipairs { "softmax", "log_softmax" } do
  samples[name] = function(lt)
    return {
      { args = { t(lt, A) }, grad = { 1 } },
      { args = { t(lt, A), 1 }, grad = { 1 } },
      { args = { t(lt, A):transpose(1, 3), 2 }, grad = { 1 } },
      { args = { (lt.arange(1, 1400, { dtype = "float64" }) * 0.37):sin():reshape(2, 700) } }, -- longer than a block
    }
  end
end

return samples
