-- How tensors print (lua/ltrain/tensor_text.lua).
local lt = require "ltrain"

describe("tostring of a tensor", function()
  local function prints(expected, t) assert.equal(expected, tostring(t)) end

  it("shows values in columns, shape and dtype", function()
    prints("[[ 1, -2],\n [30,  4]]\ntensor [2, 2] float32", lt.tensor { { 1, -2 }, { 30, 4 } })
    prints("[1.5000, 2.0000]\ntensor [2] float64", lt.tensor({ 1.5, 2 }, "float64"))
    prints("[1.0000e-06, 1.0000e+00]\ntensor [2] float64", lt.tensor({ 1e-6, 1 }, "float64"))
    prints("[[[1],\n  [2]],\n\n [[3],\n  [4]]]\ntensor [2, 2, 1] int32", lt.tensor({ { { 1 }, { 2 } }, { { 3 }, { 4 } } }, "int32"))
  end)

  it("shows numbers, truth, whole numbers beyond 2^53, nan and inf", function()
    prints("3\ntensor [] float32", lt.tensor(3))
    prints("[ true, false]\ntensor [2] bool", lt.tensor { true, false })
    prints("[9007199254740993,                1]\ntensor [2] int64", lt.tensor { 9007199254740993LL, 1LL })
    prints("[ nan,  inf, -inf,    1]\ntensor [4] float32", lt.tensor { math.abs(0 / 0), math.huge, -math.huge, 1 })
    prints("[]\ntensor [0] float32", lt.tensor {})
    prints("[]\ntensor [2, 0] float32", lt.zeros(2, 0))
    prints("[0.5000, 2.0000]\ntensor [2] bfloat16", lt.tensor({ 0.5, 2 }, "bfloat16"))
  end)

  it("shows the ends of what is long", function()
    prints("[   1,    2,    3, ..., 1999, 2000, 2001]\ntensor [2001] float32", lt.arange(1, 2001))
    local text = tostring(lt.zeros(100, 100))
    local lines = {}
    for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.same({ "[[0, 0, 0, ..., 0, 0, 0],", " [0, 0, 0, ..., 0, 0, 0],", " [0, 0, 0, ..., 0, 0, 0],", " ...,",
      " [0, 0, 0, ..., 0, 0, 0],", " [0, 0, 0, ..., 0, 0, 0],", " [0, 0, 0, ..., 0, 0, 0]]", "tensor [100, 100] float32" }, lines)
    assert.equal(1000, select(2, tostring(lt.zeros(1000)):gsub("%f[%d]0[,%]]", "")))
  end)

  it("shows views as they lie, makers and what gradients are wanted for", function()
    prints("[[1, 3],\n [2, 4]]\ntensor [2, 2] float32", lt.tensor({ { 1, 2 }, { 3, 4 } }):t())
    local x = lt.tensor({ 1 }, { requires_grad = true })
    prints("[1]\ntensor [1] float32, requires_grad", x)
    prints("[2]\ntensor [1] float32, made by mul", x * 2)
    assert.equal("x = [1]\ntensor [1] float32", "x = " .. lt.tensor { 1 })
  end)

  it("says when a tensor is gone", function()
    local t
    lt.scope(function() t = lt.zeros(2) * 1 end)
    prints("tensor (released at the end of its step)", t)
  end)
end)
