-- Gradients on the Lua side (lua/ltrain/autograd.lua; core/autograd.c, node.c, leaf.c): passes, switches, writes in place.
-- Hooks, lt.Function, checkpoints and anomaly mode are in autograd_script_spec.lua.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function leaf(values, dtype) return lt.tensor(values, { dtype = dtype or "float64", requires_grad = true }) end

describe("backward", function()
  it("adds to the gradients of leaves until they are cleared", function()
    local x = leaf { 1, 2, 3 }
    assert.is_nil(x.grad)
    x:square():sum():backward()
    assert.same({ 2, 4, 6 }, x.grad:totable())
    x:square():sum():backward()
    assert.same({ 4, 8, 12 }, x.grad:totable())
    x.grad = nil
    assert.is_nil(x.grad)
    x:square():sum():backward()
    assert.same({ 2, 4, 6 }, x.grad:totable())
    x:set_grad(lt.tensor({ 1, 1, 1 }, "float64"))
    x:sum():backward()
    assert.same({ 2, 2, 2 }, x.grad:totable())
    fails("set_grad: the tensor is [3] float64 and the gradient [2] float64; they must agree", x.set_grad, x, lt.zeros({ 2 }, "float64"))
  end)

  it("gives every leaf a gradient of its own", function()
    local a, b, g = leaf { 1, 2 }, leaf { 3, 4 }, lt.tensor({ 1, 10 }, "float64")
    ;(a + b):backward { grad = g }
    assert.is_false(a.grad:shares_storage(b.grad))
    a.grad:zero_()
    g:zero_()
    assert.same({ 1, 10 }, b.grad:totable())
    local c = leaf { { 1, 2 }, { 3, 4 } }
    c:sum():backward() -- the rule gives an expanded number
    assert.same({ 2, 1 }, c.grad:stride())
    c.grad:mul_(lt.tensor({ { 1, 2 }, { 3, 4 } }, "float64"))
    assert.same({ { 1, 2 }, { 3, 4 } }, c.grad:totable())
    local d = leaf { 1, 2 }
    d:backward { grad = g:fill_(7) }
    g:zero_()
    assert.same({ 7, 7 }, d.grad:totable())
    local e = leaf { 3 }
    ;(e * e):backward()
    assert.same({ 6 }, e.grad:totable())
  end)

  it("makes the first gradient of a leaf without a copy", function()
    local w, x = lt.zeros(64, 64):requires_grad_(), lt.rand(64, 64)
    local loss = (w * x):sum()
    lt.empty_cache()
    local before = lt.memory().allocations
    loss:backward()
    local spent = lt.memory().allocations - before
    w.grad = nil
    local y = (w:sin() * x):sum() -- one operator more: its gradient and nothing else
    before = lt.memory().allocations
    y:backward()
    assert.is_true(lt.memory().allocations - before <= spent + 4)
    assert.is_true(w.grad:is_contiguous())
  end)

  it("needs a number, or a gradient to start with", function()
    local x = leaf { 1, 2 }
    fails("backward: the tensor is [2]; only a single number can start without a gradient: sum it, or pass { grad = ... }", lt.backward, x * 2)
    fails("backward: the tensor is [2] and its gradient [3]; they must agree", lt.backward, x * 2, { grad = lt.zeros({ 3 }, "float64") })
    fails("backward: the tensor [2] has no gradient history; none of its inputs requires a gradient, or it was made inside lt.no_grad",
      lt.backward, lt.tensor { 1, 2 })
    fails("backward: argument 1 is a number; it must be a tensor", lt.backward, 5)
    fails("backward: gradient 1 is a number; it must be a tensor", lt.backward, x, { grad = 5 })
    fails("backward: unknown option 'retain_grahp', did you mean 'retain_graph'?; it knows grad, retain_graph, create_graph", lt.backward, x,
      { retain_grahp = true })
    fails("requires_grad: only a leaf can be told; this tensor is the result of mul: use x:detach()", x.requires_grad_, x * 2, false)
  end)

  it("frees its graph, unless told to retain it", function()
    local x = leaf { 2 }
    local y = x:exp():sin()
    y:backward()
    fails("backward: the graph of sin was freed by an earlier backward pass; pass { retain_graph = true } to the first", lt.backward, y)
    y = x:exp()
    x.grad = nil
    y:backward { retain_graph = true }
    y:backward()
    assert.close(x.grad:item(), 2 * math.exp(2), 1e-12)
    assert.is_false(pcall(lt.backward, y))
  end)

  it("undoes broadcasting and dtypes", function()
    local a, b, c = leaf({ { 1 }, { 2 } }, "float32"), leaf { 1, 2, 3 }, leaf(2)
    ;(a * b * c):sum():backward()
    assert.same({ { 12 }, { 12 } }, a.grad:totable())
    assert.equal("float32", a.grad.dtype)
    assert.same({ 6, 6, 6 }, b.grad:totable())
    assert.equal(18, c.grad:item())
  end)

  it("runs through a million nodes and releases them", function()
    local x = leaf(1, "float32")
    local y = x
    for _ = 1, 1000000 do y = y + 1 end
    assert.is_true(lt.memory().nodes >= 1000000)
    y:backward()
    assert.equal(1, x.grad:item())
    y = x
    for _ = 1, 200000 do y = -y end
    y = nil -- luacheck: ignore
    lt.empty_cache()
    assert.is_true(lt.memory().nodes < 1000)
  end)

  it("leaves nothing behind that the script dropped", function()
    local x = leaf { 1, 2 }
    lt.empty_cache()
    local before = lt.memory()
    for _ = 1, 100 do
      local y = (x * 2):exp():sum()
      if _ % 2 == 0 then y:backward() end
    end
    x.grad = nil
    lt.empty_cache()
    assert.equal(before.nodes, lt.memory().nodes)
    assert.equal(before.tensors, lt.memory().tensors)
  end)
end)

describe("recording", function()
  it("is switched by functions that nest and survive errors", function()
    local x = leaf { 1 }
    assert.is_true(lt.is_grad_enabled())
    lt.no_grad(function()
      assert.is_false((x * 2).requires_grad)
      lt.enable_grad(function() assert.is_true((x * 2).requires_grad) end)
      assert.is_false(lt.is_grad_enabled())
      pcall(lt.enable_grad, error, "inside")
      assert.is_false(lt.is_grad_enabled())
    end)
    assert.is_true(lt.is_grad_enabled())
    assert.is_false(pcall(lt.no_grad, error, "inside"))
    assert.is_true(lt.is_grad_enabled())
    assert.same({ 1, nil, 3 }, { lt.no_grad(function(...) return ... end, 1, nil, 3) })
  end)

  it("stops at detach", function()
    local x = leaf { 3 }
    local y = x * x:detach()
    y:backward()
    assert.equal(3, x.grad:item())
    assert.is_true(x:detach():shares_storage(x))
    assert.is_true(x.is_leaf)
    assert.is_false(y.is_leaf)
  end)
end)

describe("writing in place", function()
  it("is followed where the rule allows it", function()
    local x = leaf { 1, 2 }
    local y = x * 3
    y:mul_(2)
    y:add_(x)
    y:sum():backward()
    assert.same({ 7, 7 }, x.grad:totable())
    local z = lt.zeros({ 2 }, "float64")
    z:copy_(x * 4)
    x.grad = nil
    z:sum():backward()
    assert.same({ 4, 4 }, x.grad:totable())
  end)

  it("on a saved value fails in backward, naming both", function()
    local x = leaf { 1, 2 }
    local y = x:exp()
    y:mul_(2)
    fails("backward: the gradient of exp needs a value that mul_ wrote over afterwards; use the operator without the underscore, or clone() "
      .. "the value first", lt.backward, y:sum())
    local a = lt.tensor({ 1, 2 }, "float64")
    y = x * a
    a:add_(1)
    fails("backward: the gradient of mul needs a value that add_ wrote over afterwards; use the operator without the underscore, or clone() "
      .. "the value first", lt.backward, y:sum())
    y = x * a
    a[1] = 5 -- through a view
    fails("backward: the gradient of mul needs a value that copy_ wrote over afterwards; use the operator without the underscore, or clone() "
      .. "the value first", lt.backward, y:sum())
    y = x * a
    a:touch()
    fails("backward: the gradient of mul needs a value that the script wrote over afterwards; use the operator without the underscore, or "
      .. "clone() the value first", lt.backward, y:sum())
  end)

  it("is refused before anything is written", function()
    local x = leaf { 1, 2 }
    fails("add_: a leaf that requires a gradient cannot be written in place while gradients are recorded; write inside "
      .. "lt.no_grad(function() ... end)", function() x:add_(1) end)
    lt.no_grad(function() x:add_(1) end)
    assert.same({ 2, 3 }, x:totable())
    local y = x * 1
    fails("sin_: the gradient rule of sin reads the value that would be overwritten; use sin without the underscore", function() y:sin_() end)
    assert.same({ 2, 3 }, y:totable())
    fails("copy_: this view is part of a gradient graph and cannot be written in place; use the operator without the underscore", function()
      y[1] = 0
    end)
    local z = lt.zeros({ 2, 2 }, "float64")
    fails("copy_: the tensor is a view and the value written needs a gradient, of which the tensor it shows would not know; put the result "
      .. "together with lt.cat, lt.stack or lt.where", function() z[1] = x end)
    assert.same({ { 0, 0 }, { 0, 0 } }, z:totable())
  end)

  it("makes views stale that were taken before", function()
    local y = leaf({ 1, 2 }) * 1
    local v = y[1]
    y:mul_(3)
    fails("mul: input 1 is a view taken before its base was written in place by mul_; take the view again after the write", function()
      return v * 2
    end)
    fails("backward: the tensor [] is a view taken before its base was written in place by mul_; take the view again after the write",
      lt.backward, v)
    assert.equal(6, (y[1] * 2):item())
    assert.equal(6, lt.no_grad(function() return (v * 2):item() end))
  end)
end)

describe("lt.grad", function()
  it("returns gradients and adds none", function()
    local x, y, unused = leaf { 1, 2 }, leaf { 3, 4 }, leaf { 5 }
    local h = x * y
    local gx, gu, gh, gy = lt.grad(h:square():sum(), { x, unused, h, y })
    assert.same({ 18, 64 }, gx:totable())
    assert.is_nil(gu)
    assert.same({ 6, 16 }, gh:totable())
    assert.same({ 6, 32 }, gy:totable())
    assert.is_nil(x.grad)
    assert.same({ 1, 1 }, lt.grad(x:sum(), x):totable())
    assert.same({ 5, 7 }, lt.grad(x, x, { grad = lt.tensor({ 5, 7 }, "float64") }):totable())
  end)

  it("makes gradients that have gradients", function()
    local x = leaf { 2 }
    local first = lt.grad(x ^ 3, x, { create_graph = true })
    local second = lt.grad(first, x, { create_graph = true })
    assert.equal(12, first:item())
    assert.equal(12, second:item())
    assert.equal(6, lt.grad(second, x):item())
    ;(x * x):backward { create_graph = true }
    local g = x.grad
    assert.is_true(g.requires_grad)
    assert.equal(2, lt.grad(g, x):item())
  end)

  it("refuses what it cannot differentiate by", function()
    local x = leaf { 1 }
    fails("grad: input 2 is a number; it must be a tensor", lt.grad, x:sum(), { x, 5 })
    fails("grad: give one tensor or a list of tensors to differentiate by", lt.grad, x:sum(), {})
    fails("grad: input 1 requires no gradient; call x:requires_grad_() before using it", lt.grad, x:sum(), lt.tensor { 1 })
  end)

  it("gives second derivatives of an MLP that finite differences confirm", function()
    lt.manual_seed(3)
    local model = lt.nn.MLP { n_in = 3, hidden = { 4 }, n_out = 1, activation = "tanh" }:to "float64"
    local w, x = model:parameters()[1], lt.randn({ 5, 3 }, "float64")
    local function penalty(create) -- the squared norm of the loss's gradient
      local g = lt.grad(model(x):square():mean(), w, { create_graph = create })
      return g:square():sum()
    end
    local exact, eps = lt.grad(penalty(true), w), 1e-5
    for i = 1, 4 do
      for j = 1, 3 do
        local function at(d)
          lt.no_grad(function() w[{ i, j }]:add_(d) end)
          local v = penalty(false):item()
          lt.no_grad(function() w[{ i, j }]:add_(-d) end)
          return v
        end
        assert.close(exact[{ i, j }]:item(), (at(eps) - at(-eps)) / (2 * eps), 1e-6)
      end
    end
  end)
end)

describe("gradients of tables", function()
  local ids = lt.tensor({ 2, 0, 2 }, "int64")

  it("are rows, summed over uses", function()
    local e = lt.nn.Embedding(4, 2, { dtype = "float64" })
    ;(e(ids):sum() + e(lt.tensor({ 3 }, "int64")):sum() * 10):backward()
    local g = e.weight.grad
    assert.same({ 0, 2, 3 }, g.rows:totable())
    assert.same({ { 1, 1 }, { 2, 2 }, { 10, 10 } }, g.values:totable())
    assert.same({ { 1, 1 }, { 0, 0 }, { 2, 2 }, { 10, 10 } }, g:to_dense():totable())
    assert.is_truthy(tostring(g):find "^gradient of 3 of 4 rows\n")
  end)

  it("become dense beside a dense use, in either order", function()
    for turn = 1, 2 do
      local e = lt.nn.Embedding(4, 2, { dtype = "float64" })
      local sparse, dense = function() return e(ids):sum() end, function() return (e.weight * 5):sum() end
      if turn == 1 then (sparse() + dense()):backward() else (dense() + sparse()):backward() end
      assert.same({ { 6, 6 }, { 5, 5 }, { 7, 7 }, { 5, 5 } }, e.weight.grad:totable())
      sparse():backward()
      assert.same({ { 7, 7 }, { 5, 5 }, { 9, 9 }, { 5, 5 } }, e.weight.grad:totable())
    end
  end)
end)
