-- What all optimizers share (lua/ltrain/optim/optimizer.lua, groups.lua): groups, clipping, state, which parameters are
-- trained at all, and what is refused.
local lt = require "ltrain"
local nn, optim = lt.nn, lt.optim
local fails = require "tests.ops.fails"

local function leaf(values) return lt.tensor(values, { dtype = "float64", requires_grad = true }) end

local function model()
  lt.manual_seed(21)
  local Both = nn.class "Both"
  function Both:init()
    self.table = nn.Embedding(5, 3, { dtype = "float64" })
    self.linear = nn.Linear(3, 2):to "float64"
  end
  function Both:forward(ids) return self.linear(self.table(ids)):square():sum() end
  return Both()
end

local function train(m, optimizer, n, from)
  for i = from or 1, (from or 1) + n - 1 do
    optimizer:zero_grad()
    m(lt.tensor({ i % 5, (i * 2) % 5 }, "int64")):backward()
    optimizer:step()
  end
end

local function values(m)
  local out = {}
  for i, p in ipairs(m:parameters()) do out[i] = p:totable() end
  return out
end

describe("an optimizer", function()
  it("skips parameters without a gradient", function()
    local a, b = leaf { 1 }, leaf { 1 }
    local optimizer = optim.Adam({ a, b }, { lr = 0.1, weight_decay = 0.5 })
    a:sum():backward()
    optimizer:step()
    assert.equal(1, b:item())
    assert.are_not.equal(1, a:item())
    ;(a + b):sum():backward()
    optimizer:step()
    assert.close(b:item(), 0.9, 1e-7) -- its first step
    optimizer:zero_grad()
    assert.is_nil(a.grad)
  end)

  it("takes a module, its parameters named or plain, and trains tables all the same", function()
    local given = { function(m) return m end, function(m) return m:named_parameters() end, function(m) return m:parameters() end,
      function(m) return { { params = m.table, update = "lazy" }, { params = m.linear:parameters() } } end }
    local expected
    for _, params in ipairs(given) do
      local m = model()
      local before = m.table.weight:totable()
      train(m, optim.Adam(params(m), { lr = 0.1 }), 4)
      assert.are_not.same(before, m.table.weight:totable())
      expected = expected or values(m)
      assert.same(expected, values(m))
    end
  end)

  it("trains a plain matrix that ids look up", function()
    local w = lt.nn.Parameter(lt.full({ 3, 2 }, 1))
    local optimizer = optim.SGD({ w }, { lr = 0.5 })
    lt.embedding(lt.tensor({ 2, 0, 2 }, "int64"), w):sum():backward()
    assert.close(optimizer:grad_norm(), math.sqrt(2 * 1 + 2 * 4), 1e-12)
    optimizer:step()
    assert.same({ { 0.5, 0.5 }, { 1, 1 }, { 0, 0 } }, w:totable())
  end)

  it("trains a table that is used as a plain matrix too", function()
    for _, update in ipairs { "lazy", "exact" } do
      local e = nn.Embedding(3, 2, { dtype = "float64", init = "ones", update = update })
      local optimizer = optim.SGD(e, { lr = 0.1 })
      ;(e(lt.tensor({ 1 }, "int64")):sum() + (e.weight * 2):sum()):backward()
      optimizer:step()
      assert.close(e.weight, { { 0.8, 0.8 }, { 0.7, 0.7 }, { 0.8, 0.8 } }, 1e-15)
    end
  end)

  it("has groups with options of their own", function()
    local a, b = leaf { 1 }, leaf { 1 }
    local optimizer = optim.SGD({ { params = { a } }, { params = { b }, lr = 1 } }, { lr = 0.1 })
    ;(a + b):sum():backward()
    optimizer:step()
    assert.close({ a:item(), b:item() }, { 0.9, 0 }, 1e-15)
    assert.equal(0.1, optimizer:lr())
    assert.equal(0.01, optimizer:lr(0.01))
    optimizer:step()
    assert.close({ a:item(), b:item() }, { 0.89, -0.01 }, 1e-15)
    assert.equal("SGD lr 0.01", tostring(optimizer))
  end)

  it("clips by the norm of all gradients together, once", function()
    local a, b = leaf { 3 }, leaf { 4 }
    local optimizer = optim.SGD({ a, b }, { lr = 1 })
    ;(a * 3 + b * 4):sum():backward()
    assert.equal(5, optimizer:grad_norm())
    assert.equal(5, optimizer:clip_grad_norm(1))
    optimizer:step()
    assert.close({ a:item(), b:item() }, { 3 - 0.6, 4 - 0.8 }, 1e-6)
    optimizer:step() -- the factor was for one step
    assert.close({ a:item(), b:item() }, { -0.6, -0.8 }, 1e-6)
    optimizer:clip_grad_norm(1)
    optimizer:zero_grad()
    ;(a * 3 + b * 4):sum():backward()
    optimizer:step() -- and is forgotten with the gradients
    assert.close({ a:item(), b:item() }, { -3.6, -4.8 }, 1e-6)
    assert.equal(5, optimizer:clip_grad_norm(100))
    optimizer:step()
    assert.close({ a:item(), b:item() }, { -6.6, -8.8 }, 1e-6)
  end)

  it("goes on from its state as if nothing had happened, to the bit", function()
    for _, class in ipairs { "SGD", "Adam", "AdamW", "Adagrad" } do
      for _, update in ipairs { "lazy", "exact" } do
        local options = { lr = 0.05, update = update, momentum = class == "SGD" and 0.9 or nil }
        local m = model()
        local optimizer = optim[class](m, options)
        train(m, optimizer, 4)
        local weights, state = {}, { param_steps = {}, steps = optimizer:state_dict().steps }
        for _, e in ipairs(m:state_dict()) do weights[e.name] = e.tensor:detach():clone() end
        for _, e in ipairs(optimizer:state_dict()) do state[e.name] = e.tensor:clone() end
        for name, n in pairs(optimizer:state_dict().param_steps) do state.param_steps[name] = n end
        train(m, optimizer, 4, 5)
        local again = model()
        local other = optim[class](again, options)
        train(again, other, 2)
        again:load_state_dict(weights)
        other:load_state_dict(state)
        train(again, other, 4, 5)
        assert.same(values(m), values(again), class .. " " .. update)
      end
    end
  end)

  it("loads a state whole or not at all", function()
    local a, b = leaf { 1, 2 }, leaf { 1, 2 }
    local optimizer = optim.Adam({ a, b })
    ;(a + b):sum():backward()
    optimizer:step()
    local state = optimizer:state_dict()
    assert.same({ "group1.1.exp_avg", "group1.1.exp_avg_sq", "group1.2.exp_avg", "group1.2.exp_avg_sq" },
      { state[1].name, state[2].name, state[3].name, state[4].name })
    assert.same({ 1, 1, 1 }, { state.steps, state.param_steps["group1.1"], state.param_steps["group1.2"] })
    local before = state[1].tensor:totable()
    local changed = { ["group1.1.exp_avg"] = lt.zeros({ 2 }, "float64"), ["group1.1.exp_avg_sq"] = lt.zeros({ 2 }, "float64"),
      ["group1.2.exp_avg"] = lt.zeros({ 3 }, "float64") }
    fails("Adam: 'group1.2.exp_avg' is [3] in the state and [2] here; nothing was loaded", optimizer.load_state_dict, optimizer, changed)
    changed["group1.2.exp_avg"] = nil
    fails("Adam: the state has no 'group1.2.exp_avg'; nothing was loaded", optimizer.load_state_dict, optimizer, changed)
    assert.same(before, state[1].tensor:totable())
  end)

  it("may wait for its parameters", function()
    local optimizer = optim.Adam { lr = 0.5 }
    assert.equal("Adam lr 0.5", tostring(optimizer))
    assert.equal(0.5, optimizer:lr())
    optimizer:lr(0.25)
    local message = "Adam: it has no parameters yet; pass them first, or use it in model:compile"
    for _, method in ipairs { "step", "zero_grad", "state_dict" } do fails(message, optimizer[method], optimizer) end
    local a = leaf { 1 }
    assert.is_true(optimizer:bind { a } == optimizer)
    a:sum():backward()
    optimizer:step()
    assert.close(a:item(), 0.75, 1e-7)
  end)

  it("says how tables are updated", function()
    local e = nn.Embedding(3, 2, { l2 = 0.1 })
    assert.same({ "table weight: lazy update, L2 0.1 on rows of the batch" }, optim.Adam(e):table_text())
    assert.same({ "table weight: exact update, L2 0.1 on the whole table" }, optim.Adam(e, { update = "exact" }):table_text())
    assert.same({ "table weight: exact update, L2 0.1 on rows of the batch" },
      optim.Adam(e, { update = "exact", l2_scope = "batch" }):table_text())
    fails("Adam: a lazy update touches rows of the batch only; l2_scope = 'table' needs update = 'exact'", optim.Adam, e, { l2_scope = "table" })
  end)

  it("notices that its model was converted", function()
    local m = nn.Linear(2, 2)
    local optimizer = optim.SGD(m)
    m:to "float32"
    m(lt.rand(1, 2)):sum():backward()
    optimizer:step()
    m:to "float64"
    fails("SGD: parameter 'weight' is no longer the model's; make the optimizer after model:to(...)", optimizer.step, optimizer)
    optim.SGD(m):step()
  end)

  it("refuses options and parameters that are none", function()
    local a = leaf { 1 }
    fails("Adam: unknown option 'learning_rate'; it knows lr, betas, eps, weight_decay, l2_scope, update", optim.Adam, { a }, { learning_rate = 1 })
    fails("Adam: unknown option 'beta', did you mean 'betas'?; it knows lr, betas, eps, weight_decay, l2_scope, update", optim.Adam, { beta = 1 })
    fails("Adam: unknown option 'momentum'; it knows lr, betas, eps, weight_decay, l2_scope, update", optim.Adam, { a }, { momentum = 0.9 })
    fails("SGD: unknown option 'momentun', did you mean 'momentum'?; it knows params, lr, momentum, dampening, nesterov, weight_decay, l2_scope, "
      .. "update", optim.SGD, { { params = { a }, momentun = 1 } })
    fails("Adam: lr is -1; it must be at least 0", optim.Adam, { a }, { lr = -1 })
    fails("Adam: lr is x; it must be at least 0", optim.Adam, { a }, { lr = "x" })
    fails("Adam: betas[2] is 1; it must be at least 0 and below 1", optim.Adam, { a }, { betas = { 0.9, 1 } })
    fails("Adam: betas is 0.9; it must be a list of two numbers", optim.Adam, { a }, { betas = 0.9 })
    fails("SGD: nesterov needs a momentum above 0", optim.SGD, { a }, { nesterov = true })
    fails("SGD: update is 'lasy'; it must be 'lazy' or 'exact'", optim.SGD, nn.Embedding(2, 2), { update = "lasy" })
    fails("SGD: l2_scope is 'row'; it must be 'batch' (rows of the batch) or 'table' (all rows)", optim.SGD, { a }, { l2_scope = "row" })
    fails("SGD: parameter 'group1.1' is the result of an operator; only leaves are trained: give the tensor it was made from", optim.SGD, { a * 2 })
    fails("SGD: parameters 'group1.1' and 'group1.3' are the same tensor; give it once", optim.SGD, { a, leaf { 2 }, a })
    fails("optimizer: parameter 1 is a number; give tensors, a module or module:named_parameters()", optim.SGD, { 5 })
    fails("SGD: the parameters are a number; give a module or a list of tensors", optim.SGD, 5)
    fails("SGD: there are no parameters to train", optim.SGD, nn.ReLU())
    fails("SGD: max_norm is -1; it must be at least 0", function() optim.SGD({ a }):clip_grad_norm(-1) end)
    fails("optim: there is no optim.Adm, did you mean Adam?; there are Adagrad, Adam, AdamW, SGD", function() return optim.Adm end)
  end)
end)
