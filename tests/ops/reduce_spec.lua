-- Reductions and running sums: values against plain loops or worked examples, every error's text, gradients at ties and
-- zeros, sums that do not depend on the thread count.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local INF = math.huge
local NAN = 0 / 0
local DTYPES = { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool" }

local function f64(values) return lt.tensor(values, "float64") end

-- A wave of n elements, as a tensor and as a Lua list.
local function wave(n, shape)
  local list = {}
  for i = 1, n do list[i] = math.sin(i * 0.37) * 2 + 0.25 end
  local t = f64(list)
  return shape and t:reshape(shape) or t, list
end

-- fold(values of one result) for every result of reducing dim `dim` of [a, b, c].
local function by_loop(list, shape, dim, fold)
  local a, b, c = unpack(shape)
  local kept = { { b, c }, { a, c }, { a, b } }
  local result = {}
  for i = 1, kept[dim][1] do
    result[i] = {}
    for j = 1, kept[dim][2] do
      local values = {}
      for k = 1, shape[dim] do
        local at = { { k, i, j }, { i, k, j }, { i, j, k } }
        local p = at[dim]
        values[k] = list[((p[1] - 1) * b + p[2] - 1) * c + p[3]]
      end
      result[i][j] = fold(values)
    end
  end
  return result
end

local function sum_of(values, fn)
  local total = 0
  for _, v in ipairs(values) do total = total + (fn and fn(v) or v) end
  return total
end
local function variance(values, correction)
  local mean = sum_of(values) / #values
  return sum_of(values, function(v) return (v - mean) * (v - mean) end) / (#values - correction)
end

local FOLDS = {
  sum = function(v) return sum_of(v) end,
  mean = function(v) return sum_of(v) / #v end,
  var = function(v) return variance(v, 1) end,
  std = function(v) return math.sqrt(variance(v, 1)) end,
  prod = function(v)
    local p = 1
    for _, x in ipairs(v) do p = p * x end
    return p
  end,
  norm = function(v) return math.sqrt(sum_of(v, function(x) return x * x end)) end,
  logsumexp = function(v) return math.log(sum_of(v, math.exp)) end,
  amax = function(v) return math.max(unpack(v)) end,
  amin = function(v) return math.min(unpack(v)) end,
  count_nonzero = function(v) return #v end,
}
local NAMES = { "sum", "mean", "var", "std", "prod", "norm", "logsumexp", "amax", "amin", "count_nonzero" }

local function reduce(name, x, dims, keepdim)
  if name == "norm" then return x:norm(2, dims, keepdim) end
  return lt[name](x, dims, keepdim or false)
end

describe("reductions", function()
  it("equal plain loops over each dim, whatever the strides", function()
    local shapes = { { 3, 4, 5 }, { 2, 1100, 3 }, { 1200, 2, 1 }, { 2, 3, 700 }, { 1, 2, 300 } }
    for _, shape in ipairs(shapes) do
      local x, list = wave(shape[1] * shape[2] * shape[3], shape)
      local turned = x:permute(3, 1, 2):contiguous():permute(2, 3, 1)
      for _, name in ipairs(NAMES) do
        for dim = 1, 3 do
          local single = (name == "var" or name == "std") and shape[dim] == 1
          if not single and not (name == "prod" and shape[dim] > 100) then
            local expected = by_loop(list, shape, dim, FOLDS[name])
            assert.close(reduce(name, x, dim), expected, 1e-12)
            assert.close(reduce(name, turned, dim), expected, 1e-12)
          end
        end
      end
    end
  end)

  it("over several dims or all equal one after the other", function()
    local x, list = wave(60, { 3, 4, 5 })
    for _, name in ipairs { "sum", "amax", "amin", "count_nonzero", "prod" } do
      if name ~= "count_nonzero" then -- a count of counts is another thing
        assert.close(reduce(name, x, { 1, 3 }), reduce(name, reduce(name, x, 3), 1), 1e-12)
      end
      assert.close(reduce(name, x):item(), FOLDS[name](list), 1e-12)
      assert.close(reduce(name, x, { 1, 2, 3 }):item(), FOLDS[name](list), 1e-12)
    end
    assert.same({ 3, 1, 1 }, x:mean({ 2, -1 }, true).shape)
    assert.same({ 1, 1, 1 }, x:mean({ keepdim = true }).shape)
    assert.same({ 4 }, x:mean { dims = { 1, 3 } }.shape)
  end)

  it("of wide and long tensors give the same bits on one thread and on several", function()
    local before = lt.threads()
    local long, tall = wave(300000), wave(400000, { 100000, 4 })
    local mixed = wave(300000, { 2, 150, 1000 })
    local results = {}
    for _, threads in ipairs { 1, 2, 3 } do
      lt.threads(threads)
      local values = {}
      for _, name in ipairs { "sum", "mean", "var", "norm", "logsumexp" } do
        values[#values + 1] = reduce(name, long):item()
        values[#values + 1] = reduce(name, tall, 1):totable()
        values[#values + 1] = reduce(name, mixed, { 1, 3 }):totable()
      end
      results[#results + 1] = values
    end
    lt.threads(before)
    assert.same(results[1], results[2])
    assert.same(results[1], results[3])
  end)

  it("of nothing", function()
    local none = lt.zeros { 2, 0 }
    assert.close(none:mean(2), { NAN, NAN })
    assert.close(none:var(2), { NAN, NAN })
    assert.close(none:prod(2), { 1, 1 })
    assert.close(none:norm(2, 2), { 0, 0 })
    assert.close(none:norm(INF, 2), { 0, 0 })
    assert.close(none:logsumexp(2), { -INF, -INF })
    assert.same({ false, false }, none:any(2):totable())
    assert.same({ true, true }, none:all(2):totable())
    assert.same({ 0, 0 }, none:count_nonzero(2):totable())
    assert.same({ 0 }, none:mean(1).shape)
    assert.same({ 0 }, none:amax(1).shape)
    assert.close(lt.tensor({ 3 }):var():item(), NAN)
    assert.close(lt.tensor({ 3 }):var({ correction = 0 }):item(), 0)
    assert.close(lt.tensor({ 3, 5 }):var({ correction = 5 }):item(), INF)
  end)

  it("of a number are that number", function()
    local x = lt.tensor(2.5)
    for _, name in ipairs { "sum", "mean", "prod", "norm", "amax", "amin", "logsumexp" } do
      assert.equal(2.5, reduce(name, x):item())
      assert.same({}, reduce(name, x).shape)
    end
    assert.equal(0, x:argmax():item())
  end)

  it("keep whole numbers whole", function()
    local big = lt.tensor({ 9007199254740993LL, 2LL, -1LL }, "int64")
    assert.equal(9007199254740993LL, big:amax():item())
    assert.equal(-1, big:amin():item())
    assert.equal(-18014398509481986LL, big:prod():item())
    assert.equal("int64", lt.tensor({ 3, 4 }, "uint8"):prod().dtype)
    assert.equal("uint8", lt.tensor({ 3, 200 }, "uint8"):amax().dtype)
    assert.equal(200, lt.tensor({ 3, 200 }, "uint8"):amax():item())
    assert.equal(true, lt.tensor({ false, true }):amax():item())
    local mean = lt.tensor({ true, false, true, true }):mean()
    assert.equal("float32", mean.dtype)
    assert.equal(0.75, mean:item())
  end)

  it("of 16-bit floats accumulate wider", function()
    for _, dtype in ipairs { "bfloat16", "float16" } do
      local x = lt.full({ 4096 }, 0.0625):to(dtype)
      assert.equal(0.0625, x:mean():item())
      assert.equal(4, x:norm():item())
      assert.equal(dtype, x:var().dtype)
    end
  end)

  it("lose no digits to a large offset", function()
    local x = f64 { 1e9, 1e9 + 1, 1e9 + 2 }
    assert.equal(1, x:var():item())
    assert.close(lt.tensor({ 1000, 1000 }):logsumexp():item(), 1000 + math.log(2))
    assert.close(lt.tensor({ -INF, -INF }):logsumexp():item(), -INF)
    assert.close(lt.tensor({ INF, 1 }):logsumexp():item(), INF)
  end)

  it("spread NaN", function()
    local x = lt.tensor { { 1, NAN, 3 }, { 4, 5, 6 } }
    for _, name in ipairs { "mean", "var", "prod", "norm", "logsumexp", "amax", "amin" } do
      local y = reduce(name, x, 2):totable()
      assert.is_true(y[1] ~= y[1], name)
      assert.is_true(y[2] == y[2], name)
    end
    local y = x:norm(INF, 2):totable()
    assert.is_true(y[1] ~= y[1])
  end)
end)

describe("norm", function()
  it("takes any p from 0 on", function()
    local x = f64 { 3, 0, -4 }
    assert.close(x:norm():item(), 5, 1e-15)
    assert.close(x:norm(1):item(), 7, 1e-15)
    assert.close(x:norm(0):item(), 2, 1e-15)
    assert.close(x:norm(INF):item(), 4, 1e-15)
    assert.close(x:norm(3):item(), (27 + 64) ^ (1 / 3), 1e-14)
    assert.close(x:norm(0.5):item(), (math.sqrt(3) + 2) ^ 2, 1e-14)
  end)

  it("has no gradient at 0, and shares that of the largest", function()
    for _, p in ipairs { 0, 1, 1.5, 2, 3, INF } do
      local x = lt.zeros({ 3 }, "float64"):requires_grad_()
      x:norm(p):backward()
      assert.same({ 0, 0, 0 }, x.grad:totable())
      x:set_grad(nil)
      local g = lt.grad(x:norm(p), { x }, { create_graph = true })
      assert.close(g, { 0, 0, 0 }, 0)
    end
    local x = f64({ 2, -2, 1 }):requires_grad_()
    x:norm(INF):backward()
    assert.close(x.grad, { 0.5, -0.5, 0 }, 0)
  end)
end)

describe("std", function()
  it("has gradient 0 where it is 0", function()
    local x = f64({ { 2, 2, 2 }, { 1, 2, 3 } }):requires_grad_()
    x:std(2):sum():backward()
    assert.close(x.grad, { { 0, 0, 0 }, { -0.5, 0, 0.5 } }, 1e-15)
  end)
end)

describe("logsumexp", function()
  it("has gradient 0 where all inputs are -inf", function()
    local x = f64({ { -INF, -INF }, { 0, -INF } }):requires_grad_()
    x:logsumexp(2):sum():backward()
    assert.close(x.grad, { { 0, 0 }, { 1, 0 } }, 0)
  end)
end)

describe("prod", function()
  it("has the right gradient among zeros", function()
    local x = f64({ { 2, 0, 5 }, { 0, 3, 0 }, { 2, 3, 4 } }):requires_grad_()
    x:prod(2):sum():backward()
    assert.close(x.grad, { { 0, 10, 0 }, { 0, 0, 0 }, { 12, 8, 6 } }, 0)
  end)
end)

describe("amax and amin", function()
  it("share the gradient among equal elements", function()
    local x = f64({ { 1, 3, 3 }, { 2, 2, 2 } }):requires_grad_()
    x:amax(2):sum():backward()
    assert.close(x.grad, { { 0, 0.5, 0.5 }, { 1 / 3, 1 / 3, 1 / 3 } }, 1e-15)
    x:set_grad(nil)
    x:amin():backward()
    assert.close(x.grad, { { 1, 0, 0 }, { 0, 0, 0 } }, 0)
  end)
end)

describe("max, min, argmax, argmin", function()
  it("give the first of equal elements, counted from 0", function()
    local x = lt.tensor { { 1, 3, 3, 2 }, { 5, 5, 5, 5 } }
    local values, at = x:max(2)
    assert.same({ 3, 5 }, values:totable())
    assert.same({ 1, 0 }, at:totable())
    values, at = x:min { dim = -1, keepdim = true }
    assert.same({ { 1 }, { 5 } }, values:totable())
    assert.same({ { 0 }, { 0 } }, at:totable())
    assert.equal("int64", at.dtype)
    assert.equal(4, x:argmax():item())
    assert.equal(0, x:argmin():item())
    assert.same({ 1, 1, 1, 1 }, x:argmax(1):totable())
    assert.same({ { 1 }, { 0 } }, x:argmax({ dim = 2, keepdim = true }):totable())
  end)

  it("let NaN win, the first one", function()
    local x = lt.tensor { { 1, NAN, 3, NAN }, { NAN, 0, INF, -INF } }
    for _, name in ipairs { "max", "min" } do
      local values, at = lt[name](x, 2)
      local v = values:totable()
      assert.is_true(v[1] ~= v[1] and v[2] ~= v[2])
      assert.same({ 1, 0 }, at:totable())
      assert.same({ 1, 0 }, lt["arg" .. name](x, 2):totable())
    end
  end)

  it("search long lines in every dtype", function()
    for _, dtype in ipairs(DTYPES) do
      local x = lt.zeros({ 3, 1500 }, dtype)
      x[{ 1, 1400 }], x[{ 2, 3 }], x[{ 3, 700 }] = 1, 1, 1
      local values, at = x:max(2)
      assert.same({ 1399, 2, 699 }, at:totable())
      assert.equal(dtype, values.dtype)
      assert.same({ 1399, 2, 699 }, x:t():argmax(1):totable())
      assert.same({ 0, 0, 0 }, x:argmin(2):totable())
    end
    assert.equal(2, lt.tensor({ 9007199254740992LL, 5LL, 9007199254740993LL }, "int64"):argmax():item())
    assert.same({ 0, 0 }, lt.full({ 2, 600 }, -INF):argmax(2):totable())
  end)

  it("send the gradient to the position they gave", function()
    local x = f64({ { 1, 3, 3 }, { 7, 2, 5 } }):requires_grad_()
    local values = x:max(2);
    (values * f64 { 2, 3 }):sum():backward()
    assert.close(x.grad, { { 0, 2, 0 }, { 3, 0, 0 } }, 0)
  end)
end)

describe("any, all, count_nonzero", function()
  it("take anything but 0 for true", function()
    local x = lt.tensor { { 0, -2, NAN }, { 0, 0, 0 }, { 1, 0.5, 1 } }
    assert.same({ true, false, true }, x:any(2):totable())
    assert.same({ false, false, true }, x:all(2):totable())
    assert.same({ 2, 0, 3 }, x:count_nonzero(2):totable())
    assert.equal(true, x:any():item())
    assert.equal(false, x:all():item())
    assert.equal(5, x:count_nonzero():item())
    assert.equal(2, lt.tensor({ true, false, true }):count_nonzero():item())
  end)
end)

describe("cumsum and cumprod", function()
  it("run along a dim, also from its end", function()
    local x = lt.tensor { { 1, 2, 3 }, { 4, 0, 6 } }
    assert.same({ { 1, 3, 6 }, { 4, 4, 10 } }, x:cumsum(2):totable())
    assert.same({ { 6, 5, 3 }, { 10, 6, 6 } }, x:cumsum(2, true):totable())
    assert.same({ { 1, 2, 3 }, { 5, 2, 9 } }, x:cumsum(1):totable())
    assert.same({ { 1, 2, 6 }, { 4, 0, 0 } }, x:cumprod(-1):totable())
    assert.same({ { 6, 6, 3 }, { 0, 0, 6 } }, x:cumprod { dim = 2, reverse = true }:totable())
    assert.same({ { 1, 5 }, { 2, 2 }, { 3, 9 } }, x:t():cumsum(2):totable())
    assert.same({ 2, 0 }, lt.zeros({ 2, 0 }):cumsum(2).shape)
  end)

  it("keep whole numbers whole", function()
    local x = lt.tensor({ 200, 100, 3 }, "uint8")
    assert.same({ 200, 300, 303 }, x:cumsum(1):totable())
    assert.equal("int64", x:cumprod(1).dtype)
    assert.same({ 200, 20000, 60000 }, x:cumprod(1):totable())
  end)

  it("have the right gradient among zeros", function()
    -- y = x1, x1 x2, x1 x2 x3; weights 1, 10, 100
    local x = f64({ 2, 0, 5 }):requires_grad_();
    (x:cumprod(1) * f64 { 1, 10, 100 }):sum():backward()
    assert.close(x.grad, { 1, 2 * (10 + 100 * 5), 0 }, 0)
  end)

  it("refuse a second derivative of cumprod", function()
    local x = f64({ 2, 3 }):requires_grad_()
    local g = lt.grad(x:cumprod(1):sum(), { x }, { create_graph = true })
    fails("cumprod_backward: the second derivative has no rule; take the gradient without create_graph",
      function() g:sum():backward() end)
  end)
end)

describe("errors of reductions", function()
  local x = lt.zeros { 2, 3 }
  it("name the dims", function()
    fails("mean: dim 3; legal are 1 to 2, or -2 to -1 from the end", lt.mean, x, 3)
    fails("cumsum: dim 0; legal are 1 to 2, or -2 to -1 from the end", lt.cumsum, x, 0)
    fails("var: dim 1 is given twice", lt.var, x, { 1, -2 })
    fails("max: 2 dims given; it goes along one dim: use amax for several or all", lt.max, x, { 1, 2 })
    fails("min: 0 dims given; it goes along one dim: use amin for several or all", lt.min, x, {})
    fails("argmax: 2 dims given; positions are counted along one dim, or along all elements when it is nil",
      lt.argmax, x, { 1, 2 })
  end)
  it("name what cannot be chosen from", function()
    local none = lt.zeros { 2, 0 }
    fails("amax: the tensor is [2, 0], and among no elements there is none to choose; check that it is not empty",
      lt.amax, none)
    fails("argmin: the tensor is [2, 0], and among no elements there is none to choose; check that it is not empty",
      lt.argmin, none, 2)
    fails("max: the tensor is [2, 0], and among no elements there is none to choose; check that it is not empty",
      lt.max, none, 2)
  end)
  it("name values and dtypes", function()
    fails("norm: p is -1; it must be 0 or more, or math.huge", lt.norm, x, -1)
    fails("var: correction is -1; it must be 0 or more", lt.var, x, { correction = -1 })
    fails('var: input 1 is int64; it must be a floating type: convert with x:to("float32")', lt.var, x:to "int64")
    fails('norm: input 1 is bool; it must be a floating type: convert with x:to("float32")', lt.norm, x:to "bool")
    fails('logsumexp: input 1 is int32; it must be a floating type: convert with x:to("float32")', lt.logsumexp,
      x:to "int32")
  end)
end)

describe("a truth result that is not written in place", function()
  it("is read as bytes", function()
    for i = 1, 20 do
      local n = lt.tensor({ { i } }, "float64")
      assert.same({ { false } }, n:eq(0):totable())
      assert.same({ { true } }, n:gt(0):totable())
    end
  end)
end)
