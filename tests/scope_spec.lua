-- Step scopes (lua/ltrain/scope.lua, core/scope.c): what dies at the end of a step, what does not, and loops left early.
local lt = require "ltrain"
local fails = require "tests.ops.fails"
local steps_of = require("ltrain.scope").steps
local C = require("ltrain.ffi").C

-- An iterator as data sets have it: n turns, a scope around each.
local function turns(n)
  local steps, i = steps_of(), 0
  return function()
    i = i + 1
    if i > n then
      steps:finish()
      return nil
    end
    steps:step()
    return i
  end
end

local function settle()
  collectgarbage()
  require("ltrain.ffi").collect()
end

local function dead(t)
  local ok, message = pcall(function() return t + 1 end)
  return not ok and message:find("was released at the end of its step", 1, true) ~= nil
end

before_each(function()
  settle()
  assert.equal(0, C.lt_scope_depth())
end)

describe("lt.scope", function()
  it("ends what was made inside, and says so by name", function()
    local t, step
    lt.scope(function()
      t = lt.tensor { 1, 2 } * 3
      step = tonumber(C.lt_scope_top())
    end)
    fails(("add: the result of mul was released at the end of its step (step %d); use :item() for a number or :keep() to hold a tensor "
      .. "beyond its step"):format(step), function() return t + 1 end)
    for _, use in ipairs { function() return t:sum() end, function() return t.shape end, function() return t:item() end,
      function() return t[1] end, function() t[1] = 0 end, function() return t:totable() end, function() return t:numel() end,
      function() return lt.cat { t, t } end, function() t:add_(1) end, function() return t:keep() end } do
      local ok, message = pcall(use)
      assert.is_false(ok)
      assert.is_truthy(message:find("the result of mul was released at the end of its step", 1, true), message)
    end
    assert.equal("tensor (released at the end of its step)", tostring(t))
    assert.is_true(t == t)
  end)

  it("takes a function", function()
    fails("scope: give the function to run, scope(function() ... end), got number", lt.scope, 5)
  end)

  it("stays quiet about a reused header", function()
    local old = {}
    for i = 1, 50 do lt.scope(function() old[i] = lt.zeros(2) * 1 end) end
    local fresh = {}
    for i = 1, 300 do fresh[i] = lt.full({ 2 }, i) end
    for i = 1, 50 do assert.is_true(dead(old[i])) end
    for i = 1, 300 do assert.equal(i, fresh[i][1]:item()) end
  end)

  it("keeps what is told to, and what it returns", function()
    local kept
    local a, n, b = lt.scope(function(x)
      kept = (x * 2):keep()
      return x * 3, 5, x * 4
    end, lt.tensor { 1 })
    assert.same({ 2, 3, 5, 4 }, { kept:item(), a:item(), n, b:item() })
    assert.equal(0, C.lt_scope_depth())
    assert.same({ nil, 1 }, { lt.scope(function() return nil, 1 end) })
  end)

  it("returns tensors to the scope around it", function()
    local inner, deep
    lt.scope(function()
      inner = lt.scope(function()
        deep = lt.scope(function() return lt.full({ 1 }, 7) end)
        assert.equal(7, deep:item())
        return deep * 2
      end)
      assert.is_true(dead(deep))
      assert.equal(14, inner:item())
    end)
    assert.is_true(dead(inner))
  end)

  it("returns what is not its own untouched", function()
    local w, outer = lt.full({ 1 }, 5):keep(), nil
    lt.scope(function()
      outer = lt.full({ 1 }, 6)
      lt.scope(function() lt.scope(function() return w, outer end) end)
      assert.equal(6, outer:item())
    end)
    assert.equal(5, w:item())
    assert.is_true(dead(outer))
  end)

  it("lets views live as long as what they show", function()
    local w, view, inside = lt.arange(1, 4), nil, nil
    lt.scope(function()
      view = w[2]
      inside = (w * 1)[2]
    end)
    assert.equal(2, view:item())
    assert.is_true(dead(inside))
  end)

  it("lets gradients live as long as their leaves, and graphs as long as their tensors", function()
    local w = lt.tensor({ 1, 2 }, { requires_grad = true })
    lt.scope(function() (w * 3):sum():backward() end)
    assert.same({ 3, 3 }, w.grad:totable())
    local loss = lt.scope(function() return (w * 2):exp():sum() end) -- saved values are C's own
    w.grad = nil
    loss:backward()
    assert.close(w.grad:totable(), { 2 * math.exp(2), 2 * math.exp(4) }, 1e-5)
  end)

  it("frees nothing when an error leaves it", function()
    local t
    local ok, message = pcall(lt.scope, function()
      t = lt.full({ 1 }, 3)
      error("inside", 0)
    end)
    assert.same({ false, "inside" }, { ok, message })
    assert.equal(0, C.lt_scope_depth())
    assert.equal(3, t:item())
  end)

  it("nests to 4096 and no further", function()
    local function down(n) if n > 0 then return lt.scope(down, n - 1) end end
    down(100)
    local depth = 0
    local function forever()
      depth = depth + 1
      lt.scope(forever)
    end
    local ok = pcall(forever)
    assert.is_false(ok) -- Lua's own stack may be the first to end
    settle()
    assert.equal(0, C.lt_scope_depth())
    assert.is_true(depth > 100)
  end)
end)

describe("the steps of a loop", function()
  it("end with the next turn", function()
    local seen = {}
    for i in turns(3) do
      if i > 1 then assert.is_true(dead(seen[i - 1])) end
      seen[i] = lt.full({ 1 }, i)
      assert.equal(i, seen[i]:item())
    end
    assert.is_true(dead(seen[3]))
    assert.equal(0, C.lt_scope_depth())
  end)

  it("left by break or an error keep what still has a handle", function()
    local t
    for i in turns(3) do
      t = lt.full({ 1 }, i)
      if i == 2 then break end
    end
    settle()
    assert.equal(0, C.lt_scope_depth())
    assert.equal(2, t:item())
    pcall(function()
      for i in turns(3) do
        t = lt.full({ 1 }, i * 10)
        if i == 2 then error "stop" end
      end
    end)
    settle()
    assert.equal(0, C.lt_scope_depth())
    assert.equal(20, t:item())
  end)

  it("go on around inner loops left by break", function()
    local outer
    for i in turns(4) do
      outer = lt.full({ 1 }, i)
      for j in turns(3) do
        local x = outer * j
        if j == 2 then break end
        assert.equal(i * j, x:item())
      end
      assert.equal(i, outer:item())
    end
    assert.is_true(dead(outer))
    settle()
    assert.equal(0, C.lt_scope_depth())
  end)

  it("of iterators that take turns harm neither", function()
    local a, b = turns(4), turns(4)
    local from_a, from_b = {}, {}
    for i = 1, 4 do
      assert.equal(i, a())
      from_a[i] = lt.full({ 1 }, i)
      assert.equal(i, b())
      from_b[i] = lt.full({ 1 }, i * 10)
      assert.equal(i, from_a[i]:item())
      assert.equal(i * 10, from_b[i]:item())
    end
    assert.is_nil(a())
    assert.is_nil(b())
    a, b = nil, nil -- luacheck: ignore
    settle()
    assert.equal(0, C.lt_scope_depth())
  end)

  it("hold inside lt.scope and the other way round", function()
    local t = lt.scope(function()
      local sum
      for i in turns(3) do
        local x = lt.full({ 1 }, i)
        sum = lt.scope(function() return x * 10 end)
        assert.equal(i * 10, sum:item())
      end
      assert.is_true(dead(sum))
      return lt.full({ 1 }, 9)
    end)
    assert.equal(9, t:item())
  end)

  it("may run in a coroutine", function()
    local seen = {}
    local co = coroutine.wrap(function()
      for i in turns(3) do
        local x = lt.full({ 1 }, i)
        coroutine.yield(x:item())
        seen[i] = x:item()
      end
    end)
    assert.same({ 1, 2, 3 }, { co(), co(), co() })
    co()
    assert.same({ 1, 2, 3 }, seen)
    settle()
    assert.equal(0, C.lt_scope_depth())
  end)
end)
