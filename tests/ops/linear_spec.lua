-- linear against matmul, add and the activation apart, in value and gradient; what it keeps; every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function wave(step, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return (lt.arange(1, n, { dtype = "float64" }) * step):sin():reshape(...)
end

local APART = {
  none = function(z) return z end,
  relu = function(z) return z:relu() end,
  leaky_relu = function(z) return z:leaky_relu(0.01) end,
  sigmoid = function(z) return z:sigmoid() end,
  tanh = function(z) return z:tanh() end,
}
local NAMES = { "none", "relu", "leaky_relu", "sigmoid", "tanh" }

local function leaves(...)
  local list = { ... }
  for i, x in ipairs(list) do list[i] = x:detach():clone():requires_grad_() end
  return unpack(list)
end

describe("linear", function()
  it("equals product, bias and activation apart, and so do its gradients", function()
    for _, size in ipairs { { 3, 2, 5 }, { 300, 17, 40 }, { 130, 1, 64 }, { 1, 33, 20 } } do
      local m, out, n_in = unpack(size)
      local x, w, b, g = wave(0.7, m, n_in), wave(1.3, out, n_in), wave(2.1, out), wave(0.9, m, out)
      for _, name in ipairs(NAMES) do
        local x1, w1, b1 = leaves(x, w, b)
        local x2, w2, b2 = leaves(x, w, b)
        local fused, apart = lt.linear(x1, w1, b1, name), APART[name](lt.matmul(x2, w2:t()) + b2)
        assert.close(fused:detach():totable(), apart:detach():totable(), 1e-13)
        for _ = 1, 2 do -- the second time adds up
          (lt.linear(x1, w1, b1, name) * g):sum():backward();
          (APART[name](lt.matmul(x2, w2:t()) + b2) * g):sum():backward()
        end
        assert.close(x1.grad:totable(), x2.grad:totable(), 1e-12)
        assert.close(w1.grad:totable(), w2.grad:totable(), 1e-12)
        assert.close(b1.grad:totable(), b2.grad:totable(), 1e-12)
      end
    end
  end)

  it("takes any dims in front, strided inputs and no bias", function()
    local x, w = wave(0.7, 2, 3, 4), wave(1.3, 5, 4)
    local expected = lt.matmul(x, w:t()):totable()
    assert.close(lt.linear(x, w):totable(), expected, 1e-14)
    local turned = x:transpose(1, 2) -- rows do not line up
    assert.close(lt.linear(turned, w):transpose(1, 2):totable(), expected, 1e-14)
    assert.close(lt.linear(x[1][1], w):totable(), expected[1][1], 1e-14)
    assert.close(lt.linear(x, w:t():contiguous():t()):totable(), expected, 1e-14)
    assert.same({ 0, 5 }, lt.linear(lt.zeros({ 0, 4 }, "float64"), w).shape)
    assert.same({ { 1, 2 } }, lt.linear(lt.zeros(1, 0), lt.zeros(2, 0), lt.tensor { 1, 2 }):totable())
  end)

  it("gives the same bits on one, two and three threads, gradients too", function()
    local before = lt.threads()
    finally(function() lt.threads(before) end)
    local x, w, b = wave(0.7, 700, 60):to "float32", wave(1.3, 50, 60):to "float32", wave(2.1, 50):to "float32"
    for _, name in ipairs { "relu", "tanh" } do
      local seen = {}
      for threads = 1, 3 do
        lt.threads(threads)
        local x1, w1, b1 = leaves(x, w, b)
        lt.linear(x1, w1, b1, name):square():sum():backward()
        seen[threads] = { x1.grad:totable(), w1.grad:totable(), b1.grad:totable() }
      end
      assert.same(seen[1], seen[2])
      assert.same(seen[1], seen[3])
    end
  end)

  it("lets its result be changed in place unless the activation needs it", function()
    local x, w = leaves(wave(0.7, 4, 3), wave(1.3, 2, 3))
    lt.linear(x, w):relu_():sum():backward()
    local expected = x.grad:totable()
    x.grad = nil
    lt.linear(x, w):relu():sum():backward()
    assert.close(x.grad:totable(), expected, 0)
    local y = lt.linear(x, w, nil, "tanh")
    lt.no_grad(function() y:mul_(2) end)
    local ok, raised = pcall(function() y:sum():backward() end)
    assert.is_false(ok)
    assert.is_truthy(tostring(raised):find("the gradient of linear needs a value that mul_ wrote over afterwards", 1, true))
  end)

  it("keeps NaN and follows relu's slope at zero", function()
    local x = lt.tensor { { 0 / 0, 1 }, { 0, 0 } }:requires_grad_()
    local y = lt.linear(x, lt.tensor { { 1, 1 } }, nil, "relu")
    local values = y:detach():totable()
    assert.is_true(values[1][1] ~= values[1][1])
    assert.equal(0, values[2][1])
    y:sum():backward()
    assert.same({ 0, 0 }, x.grad:totable()[2])
  end)

  it("says what does not fit", function()
    local z = lt.zeros
    fails("linear: x is [32, 784] and w is [10, 100]; the last dim of x (784) must equal the columns of w (100)",
      lt.linear, z(32, 784), z(10, 100))
    fails("linear: w is [3]; it must be [out, in]", lt.linear, z(2, 3), z(3))
    fails("linear: x is a number; it must be [..., in]: reshape it to {1} first", lt.linear, lt.tensor(1), z(2, 1))
    fails("linear: b is [5] and w is [10, 3]; b must be [10], a number for each row of w", lt.linear, z(2, 3), z(10, 3),
      z(5))
    fails('linear: x is float64 and w is float32; both must have one dtype: convert with x:to("float32")', lt.linear,
      z({ 2, 3 }, "float64"), z(10, 3))
    fails('linear: b is float64 and w is float32; both must have one dtype: convert with b:to("float32")', lt.linear,
      z(2, 3), z(10, 3), z({ 10 }, "float64"))
    fails('linear: input 1 is int64; it must be a floating type: convert with x:to("float32")', lt.linear,
      z({ 2, 3 }, "int64"), z({ 10, 3 }, "int64"))
    fails("linear: slope is -1; it must be 0 or more, as the gradient is read off the result", lt.linear, z(2, 3),
      z(10, 3), nil, "leaky_relu", -1)
  end)
end)
