-- What a script adds to gradients (lua/ltrain/autograd.lua, checkpoint.lua): hooks, lt.Function, lt.checkpoint, anomaly mode.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function leaf(values, dtype) return lt.tensor(values, { dtype = dtype or "float64", requires_grad = true }) end

describe("hooks", function()
  it("see complete gradients of leaves and of results, and may replace them", function()
    local x, seen = leaf { 1, 2 }, {}
    local y = x * 3
    y:register_hook(function(g) seen.y = g:totable() end)
    x:register_hook(function(g)
      seen.x = g:totable()
      return g * 10
    end)
    local again = x:register_hook(function(g) seen.again = g:totable() end)
    ;(y:sum() + y:sum()):backward()
    assert.same({ y = { 2, 2 }, x = { 6, 6 }, again = { 60, 60 } }, seen)
    assert.same({ 60, 60 }, x.grad:totable())
    again.remove()
    again.remove()
    seen, x.grad = {}, nil
    ;(x * 1):sum():backward()
    assert.same({ x = { 1, 1 } }, seen)
    assert.same({ 10, 10 }, x.grad:totable())
  end)

  it("replace the gradient on its way", function()
    local x = leaf { 1, 2 }
    local y = x * 3
    y:register_hook(function(g) return g * 100 end)
    assert.same({ 300, 300 }, lt.grad(y:sum(), x):totable())
  end)

  it("record nothing unless a graph is made", function()
    local x, recorded = leaf { 1, 2 }, nil
    x:register_hook(function(g)
      recorded = (g * x).requires_grad
      return g * x
    end)
    x:square():sum():backward()
    assert.is_false(recorded)
    assert.is_false(x.grad.requires_grad)
    assert.same({ 2, 8 }, x.grad:totable())
    assert.is_true(lt.grad(x:square():sum(), x, { create_graph = true }).requires_grad)
    assert.is_true(recorded)
  end)

  it("are functions", function()
    local x = leaf { 1 }
    fails("register_hook: give a function of the gradient, got number", x.register_hook, x, 5)
    fails("checkpoint: give the function to run and its arguments, got number", lt.checkpoint, 5)
  end)

  it("must return what fits", function()
    local x = leaf { 1, 2 }
    local hook = x:register_hook(function() return lt.zeros({ 3 }, "float64") end)
    fails("hook: the gradient is [2] float64 and the hook returned [3] float64; they must agree", lt.backward, x:sum())
    hook.remove()
    hook = x:register_hook(function() return 5 end)
    fails("hook: it returned a number; return a tensor or nothing", lt.backward, x:sum())
    hook.remove()
    hook = x:register_hook(function() error("in the hook", 0) end)
    local ok, message = pcall(lt.backward, x:sum())
    assert.same({ false, "in the hook" }, { ok, message })
    hook.remove()
    x.grad = nil
    x:sum():backward()
    assert.same({ 1, 1 }, x.grad:totable())
    assert.is_true(lt.is_grad_enabled())
    fails("hook: the tensor requires no gradient, so its hook would never be called", lt.zeros(2).register_hook, lt.zeros(2), print)
  end)
end)

describe("lt.Function", function()
  local scale = lt.Function { name = "scale",
    forward = function(context, x, factor)
      context.factor = factor
      return x * factor
    end,
    backward = function(context, g) return g * context.factor end }

  it("is an operator with a rule of the script", function()
    local x = leaf { 1, 2 }
    local y = scale(x, 3)
    assert.is_true(y.requires_grad)
    y:square():sum():backward()
    assert.same({ 18, 36 }, x.grad:totable())
    assert.is_false(scale(x:detach(), 3).requires_grad)
    assert.is_false(lt.no_grad(scale, x, 3).requires_grad)
  end)

  it("may have several inputs and outputs; an unused output has no gradient", function()
    local grads
    local both = lt.Function { forward = function(_, a, b) return a + b, a - b end,
      backward = function(_, sum, difference)
        grads = { sum ~= nil, difference ~= nil }
        local g = sum or lt.zeros_like(difference)
        return difference and g + difference or g, difference and g - difference or g
      end }
    local a, b = leaf { 1, 2 }, leaf { 3, 4 }
    local s, d = both(a, b)
    ;(s:sum() + (d * 10):sum()):backward()
    assert.same({ { 11, 11 }, { -9, -9 } }, { a.grad:totable(), b.grad:totable() })
    assert.same({ true, true }, grads)
    local _, only = both(a, b)
    only:sum():backward()
    assert.same({ false, true }, grads)
  end)

  it("may give one tensor as two outputs, each with a gradient of its own, and frees its record", function()
    local twice = lt.Function { forward = function(_, x)
      local y = x * 1
      return y, y
    end, backward = function(_, g, h) return g * 10 + h end }
    collectgarbage()
    local before = lt.memory().nodes
    local x = leaf { 1, 2 }
    local a, b = twice(x)
    ;(a * 2 + b * 3):sum():backward()
    assert.same({ 23, 23 }, x.grad:totable())
    a, b = nil, nil -- luacheck: ignore
    collectgarbage()
    assert.equal(before, lt.memory().nodes)
  end)

  it("may hand an input through, and give second derivatives", function()
    local through = lt.Function { forward = function(_, x) return x end, backward = function(_, g) return g * 2 end }
    local x = leaf { 1, 2 }
    through(x):sum():backward()
    assert.same({ 2, 2 }, x.grad:totable())
    local cube = lt.Function { forward = function(context, v)
      context.x = v
      return v * v * v
    end, backward = function(context, g) return g * context.x * context.x * 3 end }
    local z = leaf { 2 }
    local first = lt.grad(cube(z), z, { create_graph = true })
    assert.equal(12, lt.grad(first, z):item())
  end)

  it("raises what its functions raise, and what does not fit", function()
    local x = leaf { 1, 2 }
    local bad = lt.Function { forward = function() error("forward failed", 0) end, backward = function() end }
    assert.same({ false, "forward failed" }, { pcall(bad, x) })
    assert.is_true(lt.is_grad_enabled())
    local late = lt.Function { forward = function(_, v) return v * 1 end, backward = function() error("backward failed", 0) end }
    assert.same({ false, "backward failed" }, { pcall(lt.backward, late(x):sum()) })
    local misfit = lt.Function { forward = function(_, v) return v * 1 end, backward = function() return lt.zeros({ 3 }, "float64") end }
    fails("function: input 1 is [2] and the gradient given for it [3]; they must agree", lt.backward, misfit(x):sum())
    local many = lt.Function { forward = function(_, v) return v * 1 end, backward = function(_, g) return g, g end }
    fails("function: gradient 2 given; the function has 1 inputs", lt.backward, many(x):sum())
    local number = lt.Function { name = "number", forward = function() return 5 end, backward = function() end }
    fails("number: output 1 is a number; it must be a tensor", number, x)
    fails("Function: forward and backward must both be functions", lt.Function, { forward = print })
    fails("Function: unknown option 'backwards', did you mean 'backward'?; it knows forward, backward, name", lt.Function, { backwards = print })
  end)

  it("is let go after its pass, though its context holds its output", function()
    local keeps = lt.Function { forward = function(context, v)
      context.y = v * 2
      return context.y
    end, backward = function(_, g) return g * 2 end }
    local x = leaf { 1, 2 }
    lt.empty_cache()
    local before = lt.memory()
    for _ = 1, 600 do keeps(x):sum():backward() end
    x.grad = nil
    lt.empty_cache()
    assert.is_true(lt.memory().tensors - before.tensors < 600) -- numbers are swept every 256 functions
    assert.is_true(lt.memory().nodes - before.nodes < 300)
  end)
end)

describe("lt.checkpoint", function()
  it("gives the gradients of a plain call, of arguments and of parameters inside", function()
    lt.manual_seed(1)
    local model = lt.nn.MLP { n_in = 3, hidden = { 5, 5 }, n_out = 2 }:to "float64"
    local x = lt.randn({ 4, 3 }, "float64"):requires_grad_()
    model(x):square():sum():backward()
    local expected = { x.grad:totable() }
    for i, p in ipairs(model:parameters()) do
      expected[i + 1] = p.grad:totable()
      p.grad = nil
    end
    x.grad = nil
    local y = lt.checkpoint(function(a) return model(a) end, x)
    y:square():sum():backward()
    assert.same(expected[1], x.grad:totable())
    for i, p in ipairs(model:parameters()) do assert.same(expected[i + 1], p.grad:totable()) end
  end)

  it("saves memory between forward and backward", function()
    local x = lt.zeros(256, 256):requires_grad_()
    local function deep(v)
      for _ = 1, 10 do v = v:exp() * 0.1 end
      return v
    end
    lt.empty_cache()
    local start = lt.memory().live
    local y = deep(x)
    lt.empty_cache()
    local used = lt.memory().live - start
    assert.is_true(y.requires_grad)
    y = lt.checkpoint(deep, x)
    lt.empty_cache()
    assert.is_true(lt.memory().live - start < used / 4)
    assert.is_true(y.requires_grad)
  end)

  it("draws the same random numbers twice and leaves the generator alone", function()
    local x = lt.full({ 200 }, 1, "float64"):requires_grad_()
    lt.manual_seed(5)
    local y = lt.checkpoint(function(v) return v:dropout(0.5) end, x)
    local after = { lt.random_state() }
    y:sum():backward()
    assert.same(y:totable(), x.grad:totable()) -- 0 or 2 at the same places
    assert.same(after, { lt.random_state() })
  end)

  it("nests, and works without a gradient", function()
    local x = leaf { 0.5, 1 }
    local y = lt.checkpoint(function(a) return lt.checkpoint(function(b) return b:sin() end, a * 2):exp() end, x)
    y:sum():backward()
    local expected = lt.grad((x * 2):sin():exp():sum(), x)
    assert.close(x.grad:totable(), expected:totable(), 1e-15)
    assert.is_false(lt.no_grad(lt.checkpoint, lt.exp, x).requires_grad)
    local a, b = lt.checkpoint(function(v, n) return v * 2, v:sum() * n end, x, 4)
    assert.same({ 1, 2 }, a:totable())
    x.grad = nil
    b:backward()
    assert.same({ 4, 4 }, x.grad:totable())
  end)

  it("under lt.grad adds to no parameter, and finds those inside", function()
    local w, x = leaf { 2, 3 }, leaf { 1, 5 }
    local function f(a) return (a * w):sum() end
    assert.same({ 2, 3 }, lt.grad(lt.checkpoint(f, x), x):totable())
    assert.is_nil(w.grad)
    assert.same({ 1, 5 }, lt.grad(lt.checkpoint(f, x), w):totable())
    local gw, gx = lt.grad(lt.checkpoint(f, x) + lt.checkpoint(f, x) + w:sum(), { w, x })
    assert.same({ { 3, 11 }, { 4, 6 } }, { gw:totable(), gx:totable() })
    assert.is_nil(w.grad)
    fails("checkpoint: gradients of gradients do not pass a checkpoint; call the function without it", lt.grad, lt.checkpoint(f, x), x,
      { create_graph = true })
  end)

  it("inside a pass of its own, within another's function, adds to leaves", function()
    local w, x = leaf { 3 }, leaf { 2 }
    local aside = lt.Function { forward = function(_, v) return v * 1 end, backward = function(_, g)
      lt.enable_grad(function() lt.checkpoint(function(v) return (v * w):sum() end, x):backward() end)
      return g
    end }
    assert.equal(1, lt.grad(aside(x):sum(), x):item())
    assert.same({ { 2 }, { 3 } }, { w.grad:totable(), x.grad:totable() })
  end)

  it("hands errors and inputs through", function()
    local x = leaf { 1 }
    assert.same({ false, "inside" }, { pcall(lt.checkpoint, function() error("inside", 0) end, x) })
    fails("checkpoint: output 1 is a number; it must be a tensor", lt.checkpoint, function() return 5 end, x)
    local y = lt.checkpoint(function(a) return a end, x)
    y:sum():backward()
    assert.same({ 1 }, x.grad:totable())
  end)
end)

describe("anomaly mode", function()
  after_each(function() lt.detect_anomaly(false) end)

  local function raised(f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    return (message:gsub("%d+: ", "N: "):gsub("%.lua:%d+:", ".lua:N:"))
  end

  it("names the operator that made a NaN and its line", function()
    lt.detect_anomaly()
    local x = lt.tensor { 1, -1 }
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, message = pcall(function() local y = x:log() return y end)
    assert.is_false(ok)
    assert.equal(("tests/autograd_script_spec.lua:%d: log: the result [2] has a NaN at element 2; look at its inputs (a log or division of zero, "
      .. "an overflow, a learning rate too high)"):format(line), message)
    assert.equal(math.huge, (lt.tensor { 1 } / 0):item()) -- infinity is no NaN
  end)

  it("names the forward line of a NaN born in backward", function()
    lt.detect_anomaly()
    local x = leaf({ 0 }, "float32")
    local line = debug.getinfo(1, "l").currentline + 1
    local y = x:sqrt()
    local z = y * 0
    local message = raised(lt.backward, z:sum())
    assert.is_truthy(message:find(("backward of the operator at tests/autograd_script_spec.lua:%d: "):format(line):gsub("%d+: ", "N: ")
      :gsub("%.lua:%d+:", ".lua:N:"), 1, true), message)
    assert.is_truthy(message:find("has a NaN at element 1", 1, true))
  end)

  it("is off without a trace", function()
    lt.detect_anomaly()
    lt.detect_anomaly(false)
    assert.is_true((lt.tensor { -1 }):log():item() ~= 0)
  end)
end)
