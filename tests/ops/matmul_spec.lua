-- matmul against plain loops over every way the operands may lie, gradients into bound buffers, the same bits on any
-- number of threads, every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function wave(step, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return (lt.arange(1, n, { dtype = "float64" }) * step):sin():reshape(...)
end

-- The product of two tables of rows.
local function by_loops(a, b)
  local c = {}
  for i = 1, #a do
    c[i] = {}
    for j = 1, #b[1] do
      local sum = 0
      for p = 1, #b do sum = sum + a[i][p] * b[p][j] end
      c[i][j] = sum
    end
  end
  return c
end

-- The same values lying by rows, by columns, with gaps between rows, with gaps everywhere, backwards in memory order.
local function layouts(x)
  local m, n = unpack(x.shape)
  local gaps = lt.zeros({ m, n + 3 }, x.dtype):slice(2, 2, n + 1)
  local sparse = lt.zeros({ 2 * m, 3 * n }, x.dtype):slice(1, 1, -1, 2):slice(2, 1, -1, 3)
  gaps:copy_(x)
  sparse:copy_(x)
  return { x, x:t():contiguous():t(), gaps, sparse }
end

describe("matmul", function()
  it("equals plain loops however the operands lie", function()
    for _, size in ipairs { { 1, 1, 1 }, { 2, 3, 4 }, { 9, 17, 33 }, { 1, 40, 70 }, { 40, 1, 70 }, { 70, 40, 1 },
      { 8, 48, 16 }, { 13, 51, 430 }, { 3, 5, 900 } } do
      local m, n, k = unpack(size)
      local a, b = wave(0.7, m, k), wave(1.1, k, n)
      local expected = by_loops(a:totable(), b:totable())
      for _, x in ipairs(layouts(a)) do
        for _, y in ipairs(layouts(b)) do assert.close(lt.matmul(x, y):totable(), expected, 1e-12) end
      end
    end
  end)

  it("multiplies whole numbers exactly, wrapping around as int64 does", function()
    local a = lt.arange(1, 60, { dtype = "int64" }):reshape(6, 10)
    local b = lt.arange(-40, 29, { dtype = "int64" }):reshape(10, 7)
    assert.same(by_loops(a:totable(), b:totable()), lt.matmul(a, b):totable())
    local big = lt.tensor({ { 3037000500 } }, "int64")
    assert.equal("-9223372036709301616LL", tostring(lt.matmul(big, big):reshape(1):totable()[1]))
  end)

  it("drops the dims of vectors and broadcasts batches", function()
    local function shape(a, b) return lt.matmul(lt.zeros(a), lt.zeros(b)).shape end
    assert.same({}, shape({ 3 }, { 3 }))
    assert.same({ 2 }, shape({ 2, 3 }, { 3 }))
    assert.same({ 4 }, shape({ 3 }, { 3, 4 }))
    assert.same({ 5, 2, 4 }, shape({ 5, 2, 3 }, { 3, 4 }))
    assert.same({ 6, 5, 2, 4 }, shape({ 5, 2, 3 }, { 6, 1, 3, 4 }))
    assert.same({ 5, 4 }, shape({ 3 }, { 5, 3, 4 }))
    local a, b = wave(0.7, 2, 1, 3, 4), wave(1.1, 5, 4, 2)
    local y = lt.matmul(a, b)
    for i = 1, 2 do
      for j = 1, 5 do assert.close(y[i][j]:totable(), by_loops(a[i][1]:totable(), b[j]:totable()), 1e-13) end
    end
    local heads = wave(0.3, 2, 3, 4, 5):transpose(2, 3) -- [2, 4, 3, 5], batches that lie apart
    local scores = lt.matmul(heads, heads:transpose())
    assert.close(scores[2][4]:totable(), by_loops(heads[2][4]:totable(), heads[2][4]:t():totable()), 1e-13)
  end)

  it("gives zeros for an empty sum and keeps empty shapes", function()
    assert.same({ { 0, 0 } }, lt.matmul(lt.zeros(1, 0), lt.zeros(0, 2)):totable())
    assert.same({ 0, 2 }, lt.matmul(lt.zeros(0, 3), lt.zeros(3, 2)).shape)
    assert.same({ 0, 2, 2 }, lt.matmul(lt.zeros(0, 2, 3), lt.zeros(0, 3, 2)).shape)
  end)

  it("gives the same bits on one, two and three threads", function()
    local before = lt.threads()
    finally(function() lt.threads(before) end)
    local sizes = { { 130, 70, 90 }, { 40, 33, 2000 }, { 1, 300, 1000 }, { 500, 1, 400 }, { 20, 10, 9000 }, { 3, 70, 900 } }
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
      for _, size in ipairs(sizes) do
        local m, n, k = unpack(size)
        local a, b = wave(0.7, m, k):to(dtype), wave(1.1, n, k):to(dtype):t()
        local results = {}
        for threads = 1, 3 do
          lt.threads(threads)
          results[threads] = lt.matmul(a, b):to("float64"):totable()
        end
        assert.same(results[1], results[2])
        assert.same(results[1], results[3])
      end
    end
  end)

  it("adds gradients up where the leaf keeps them", function()
    local a, b = wave(0.7, 4, 3):requires_grad_(), wave(1.1, 3, 2):requires_grad_()
    local g = wave(0.9, 4, 2)
    for _ = 1, 2 do (lt.matmul(a, b) * g):sum():backward() end
    local da, db = by_loops(g:totable(), b:detach():t():totable()), by_loops(a:detach():t():totable(), g:totable())
    assert.close((a.grad / 2):totable(), da, 1e-13)
    assert.close((b.grad / 2):totable(), db, 1e-13)
    local shared = wave(1.1, 3, 2):requires_grad_() -- one matrix for a batch: its gradient is one sum
    lt.matmul(wave(0.7, 5, 4, 3), shared):sum():backward()
    local rows, ones = wave(0.7, 20, 3):t():totable(), lt.ones({ 20, 2 }, "float64"):totable()
    assert.close(shared.grad:totable(), by_loops(rows, ones), 1e-13)
  end)

  it("says which sizes do not fit", function()
    local z = lt.zeros
    fails("matmul: a is [32, 784] and b is [100, 10]; columns of a (784) must equal rows of b (100)", lt.matmul,
      z(32, 784), z(100, 10))
    fails("matmul: a is [3] and b is [4]; elements of a (3) must equal elements of b (4)", lt.matmul, z(3), z(4))
    fails("matmul: a is [2, 3] and b is [4]; columns of a (3) must equal elements of b (4)", lt.matmul, z(2, 3), z(4))
    fails("matmul: a is [5, 2, 3] and b is [4, 3, 2]; their batch sizes 5 and 4 must be equal or 1", lt.matmul,
      z(5, 2, 3), z(4, 3, 2))
    fails("matmul: b is a number; both operands need at least 1 dim: multiply with a * b", lt.matmul, z(2, 3),
      lt.tensor(2))
  end)

  it("takes one dtype, and says what to convert", function()
    local z = lt.zeros
    fails('matmul: a is float32 and b is float64; both must have one dtype: convert with x:to("float64")', lt.matmul,
      z({ 2, 2 }, "float32"), z({ 2, 2 }, "float64"))
    fails('matmul: a and b are int32; products take floating types and int64: convert with x:to("int64")', lt.matmul,
      z({ 2, 2 }, "int32"), z({ 2, 2 }, "int32"))
    fails('matmul: a and b are bool; products take floating types and int64: convert with x:to("float32")', lt.matmul,
      z({ 2, 2 }, "bool"), z({ 2, 2 }, "bool"))
  end)
end)
