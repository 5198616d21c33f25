-- Initial values (lua/ltrain/nn/initializer.lua): means, deviations and bounds of the named distributions.
local lt = require "ltrain"
local init = lt.nn.init
local fails = require "tests.ops.fails"

local OUT, IN = 300, 500

local function statistics(t)
  local mean = t:mean():item()
  return mean, math.sqrt((t - mean):square():mean():item()), t:amin():item(), t:amax():item()
end

describe("initializer", function()
  local function check(what, deviation, bound, ...)
    lt.manual_seed(11)
    local t = lt.zeros({ OUT, IN }, "float64"):requires_grad_()
    assert.is_true(init[what](t, ...) == t)
    assert.is_nil(t.grad)
    local mean, std, low, high = statistics(t:detach())
    local error = deviation / math.sqrt(OUT * IN)
    assert.is_true(math.abs(mean) < 5 * error, what .. " mean " .. mean)
    assert.is_true(math.abs(std / deviation - 1) < 0.01, what .. " deviation " .. std)
    if bound then
      assert.is_true(low >= -bound and high <= bound and high > 0.999 * bound and low < -0.999 * bound, what)
    else
      assert.is_true(high > 3.9 * deviation and low < -3.9 * deviation, what)
    end
  end

  it("draws with the deviations of the papers", function()
    check("uniform", 2 / math.sqrt(3), 2, -2, 2)
    check("normal", 1.5, nil, 0, 1.5)
    check("xavier_uniform", math.sqrt(2 / (IN + OUT)), math.sqrt(6 / (IN + OUT)))
    check("xavier_normal", 3 * math.sqrt(2 / (IN + OUT)), nil, 3)
    check("kaiming_uniform", math.sqrt(2 / IN), math.sqrt(6 / IN))
    check("kaiming_uniform", 1 / math.sqrt(3 * IN), 1 / math.sqrt(IN), 1 / math.sqrt(3))
    check("kaiming_normal", math.sqrt(2 / IN), nil)
  end)

  it("sets constants", function()
    local t = lt.empty { 2, 2 }
    assert.same({ { 0, 0 }, { 0, 0 } }, init.zeros(t):totable())
    assert.same({ { 1, 1 }, { 1, 1 } }, init.ones(t):totable())
    assert.same({ { 3, 3 }, { 3, 3 } }, init.constant(t, 3):totable())
  end)

  it("goes by name, by list, or by function", function()
    local t = lt.empty { 2 }
    assert.same({ 2, 2 }, init.apply(t, { "constant", 2 }):totable())
    assert.same({ 1, 1 }, init.apply(t, "ones"):totable())
    assert.same({ 4, 4 }, init.apply(t, function(x) return init.constant(x, 4) end):totable())
    init.apply(t, { "uniform", 5, 6 })
    assert.is_true(t:amin():item() >= 5)
    fails("initializer: there is no 'xavier_norml', did you mean 'xavier_normal'?; there are zeros, ones, uniform, normal, xavier_uniform, xavier_normal, "
      .. "kaiming_uniform, kaiming_normal, constant", init.apply, t, "xavier_norml")
    fails("initializer: the tensor is [2]; fans need two dims, [out, in]", init.xavier_normal, t)
  end)

  it("repeats itself from the same seed", function()
    lt.manual_seed(4)
    local a = init.normal(lt.empty { 50 }):totable()
    lt.manual_seed(4)
    assert.same(a, init.normal(lt.empty { 50 }):totable())
    assert.are_not.same(a, init.normal(lt.empty { 50 }):totable())
  end)
end)
