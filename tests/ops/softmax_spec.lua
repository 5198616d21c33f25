-- softmax and log_softmax: values from plain loops in double, every dtype, shapes without elements, errors.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local INF, NAN = math.huge, 0 / 0

-- softmax of one list, by the textbook.
local function plain(list)
  local top, sum, result = -INF, 0, {}
  for _, v in ipairs(list) do top = math.max(top, v) end
  for _, v in ipairs(list) do sum = sum + math.exp(v - top) end
  for i, v in ipairs(list) do result[i] = math.exp(v - top) / sum end
  return result
end
local function logs(list)
  local result = plain(list)
  for i, v in ipairs(result) do result[i] = math.log(v) end
  return result
end

local function rows(n, width)
  local list = {}
  for i = 1, n do
    list[i] = {}
    for j = 1, width do list[i][j] = math.sin(i * 13 + j * 0.7) * 4 end
  end
  return list
end
local function each(list, fn)
  local result = {}
  for i, row in ipairs(list) do result[i] = fn(row) end
  return result
end

describe("softmax and log_softmax", function()
  it("equal the textbook along the last dim, at every length", function()
    for _, width in ipairs { 1, 2, 15, 16, 17, 511, 512, 513, 1500 } do
      local list = rows(3, width)
      assert.close(lt.tensor(list, "float64"):softmax(), each(list, plain), 1e-13)
      assert.close(lt.tensor(list, "float64"):log_softmax(), each(list, logs), 1e-12)
      assert.close(lt.tensor(list):softmax(), each(list, plain), 3e-7)
      assert.close(lt.tensor(list):log_softmax(), each(list, logs), 2e-6)
    end
  end)

  it("go along any dim and take strided inputs", function()
    local list = rows(6, 40)
    local x = lt.tensor(list, "float64")
    assert.close(x:t():softmax(1):t(), each(list, plain), 1e-13)
    assert.close(x:t():contiguous():softmax(1):t(), each(list, plain), 1e-13)
    assert.close(x:reshape(6, 1, 40):softmax(3):reshape(6, 40), each(list, plain), 1e-13)
    assert.close(x:reshape(2, 3, 40):permute(3, 1, 2):log_softmax { dim = 1 }:permute(2, 3, 1):reshape(6, 40),
      each(list, logs), 1e-12)
    assert.close(x:slice(2, 1, -1, 2):softmax(), each(list, function(row)
      local half = {}
      for j = 1, #row, 2 do half[#half + 1] = row[j] end
      return plain(half)
    end), 1e-13)
  end)

  it("do not overflow, and give masked scores nothing", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local x = lt.tensor({ { 1000, 1001, 1002 }, { -1000, 0, -INF }, { -INF, -INF, 5 } }, dtype)
      local p = x:softmax()
      assert.close(p[1], plain { 0, 1, 2 }, 1e-6)
      assert.same({ 0, 1, 0 }, p[2]:totable())
      assert.same({ 0, 0, 1 }, p[3]:totable())
      assert.same({ -1000, 0, -INF }, x:log_softmax()[2]:totable())
    end
  end)

  it("tell of NaN and of rows where everything is masked", function()
    local y = lt.tensor({ { 1, NAN, 2 }, { -INF, -INF, -INF }, { 0, 0, 0 } }):softmax():totable()
    for j = 1, 3 do
      assert.is_true(y[1][j] ~= y[1][j])
      assert.is_true(y[2][j] ~= y[2][j])
      assert.close(y[3][j], 1 / 3)
    end
  end)

  it("compute 16-bit floats in float32", function()
    for dtype, tolerance in pairs { bfloat16 = 4e-3, float16 = 5e-4 } do
      local x = lt.tensor(rows(2, 700)):to(dtype)
      local y = x:softmax()
      assert.equal(dtype, y.dtype)
      assert.close(y, each(x:totable(), plain), tolerance)
      assert.close(x:t():softmax(1):t(), y, 0)
    end
  end)

  it("take shapes without elements", function()
    for _, name in ipairs { "softmax", "log_softmax" } do
      assert.same({ 0, 3 }, lt[name](lt.zeros { 0, 3 }).shape)
      assert.same({ 3, 0 }, lt[name](lt.zeros { 3, 0 }).shape)
    end
    assert.close(lt.tensor({ { 3 }, { -2 } }):softmax(), { { 1 }, { 1 } }, 0)
  end)

  it("have gradients of large inputs that add up to nothing", function()
    for _, name in ipairs { "softmax", "log_softmax" } do
      local x = lt.tensor(rows(50, 900)):requires_grad_()
      lt[name](x)[{ {}, 3 }]:sum():backward()
      assert.close(x.grad:sum(2), lt.zeros { 50 }, 1e-6)
    end
  end)

  it("name what is wrong", function()
    fails('softmax: input 1 is int64; it must be a floating type: convert with x:to("float32")', lt.softmax,
      lt.tensor({ 1, 2 }, "int64"))
    fails("softmax: dim 3; legal are 1 to 2, or -2 to -1 from the end", lt.softmax, lt.zeros { 2, 3 }, 3)
    fails("log_softmax: dim -1; the tensor is a number and has no dims", lt.log_softmax, lt.tensor(1.5))
  end)
end)
