--- Sample arguments for operators that make tensors, and for those that write over one (core/ops/create.c).
local samples = {}

function samples.empty() return { { args = { { 2, 0 } } } } end -- without elements: values are not set
function samples.zeros() return { { args = { { 2, 3 } } }, { args = { {}, "int64" } } } end
function samples.full() return { { args = { { 2, 3 }, 1.5 } }, { args = { { 2 }, 7, "int32" } } } end
function samples.arange()
  return {
    { args = { 1, 5 } },
    { args = { 5, 1, -2 } },
    { args = { 1, 0 } },
    { args = { 0, 4, 1, "int64" } },
  }
end
function samples.linspace() return { { args = { -1, 1, 5 } }, { args = { 2, 3, 1 } }, { args = { 0, 1, 0 } } } end
function samples.eye() return { { args = { 3 } }, { args = { 2, 4 } }, { args = { 0 } } } end
function samples.zero(lt) return { { args = { lt.tensor({ { 1.5, 2 }, { 3, 4 } }, "float64") } } } end
function samples.fill(lt) return { { args = { lt.tensor({ { 1.5, 2 }, { 3, 4 } }, "float64"), -0.5 } } } end

return samples
