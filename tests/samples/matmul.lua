--- Sample inputs for products (core/ops/matmul.c, linear.c).
local function wave(lt, step, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return (lt.arange(1, n, { dtype = "float64" }) * step):sin():reshape(...)
end

local samples = {}

function samples.matmul(lt)
  local function x(...) return wave(lt, 0.7, ...) end
  local function y(...) return wave(lt, 1.1, ...) end
  return {
    { args = { x(2, 3), y(3, 4) }, grad = { 1, 2 } },
    { args = { x(3), y(3) }, grad = { 1, 2 } },
    { args = { x(2, 3), y(3) }, grad = { 1, 2 } },
    { args = { x(3), y(3, 2) }, grad = { 1, 2 } },
    { args = { x(2, 2, 3), y(2, 3, 2) }, grad = { 1, 2 } },
    { args = { x(2, 2, 3), y(3, 2) }, grad = { 1, 2 } },
    { args = { x(2, 3), y(2, 3, 2) }, grad = { 1, 2 } },
    { args = { x(2, 1, 2, 3), y(3, 3, 1) }, grad = { 1, 2 } },
    { args = { x(2, 2, 3), y(3) }, grad = { 1, 2 } },
    { args = { x(3), y(2, 3, 2) }, grad = { 1, 2 } },
    { args = { x(3, 2):t(), y(4, 3):t() }, grad = { 1, 2 } },
    { args = { x(1, 3), y(3, 1) }, grad = { 1, 2 } },
    { args = { lt.zeros({ 2, 0 }, "float64"), lt.zeros({ 0, 3 }, "float64") }, grad = { 1, 2 } },
    { args = { lt.zeros({ 0, 3 }, "float64"), y(3, 2) }, grad = { 1, 2 } },
  }
end

function samples.linear(lt)
  local function x(...) return wave(lt, 0.7, ...) end
  local w, b = wave(lt, 1.3, 5, 3), wave(lt, 2.1, 5) * 0.5
  local list = {
    { args = { x(4, 3), w, b }, grad = { 1, 2, 3 } },
    { args = { x(4, 3), w }, grad = { 1, 2 } },
    { args = { x(3), w, b, "tanh" }, grad = { 1, 2, 3 } },
    { args = { x(2, 2, 3), w, b, "sigmoid" }, grad = { 1, 2, 3 } },
    { args = { x(2, 3, 2):transpose(2, 3), w, b }, grad = { 1, 2, 3 } },
    { args = { x(4, 3), w, nil, "relu" }, grad = { 1, 2 } },
    { args = { x(4, 3), w, b, "leaky_relu", 0.2 }, grad = { 1, 2, 3 } },
    { args = { lt.zeros({ 0, 3 }, "float64"), w, b, "relu" }, grad = { 1, 2, 3 } },
  }
  for _, activation in ipairs { "relu", "leaky_relu", "sigmoid", "tanh" } do
    list[#list + 1] = { args = { x(4, 3), w, b, activation }, grad = { 1, 2, 3 } }
  end
  return list
end

return samples
