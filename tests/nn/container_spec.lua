-- Sequential (lua/ltrain/nn/container.lua), activations and MLP: order, fusing of Linear with its activation, options.
local lt = require "ltrain"
local nn = lt.nn
local fails = require "tests.ops.fails"

describe("Sequential", function()
  it("runs its modules one after the other", function()
    local a, b = nn.Linear(3, 4), nn.Linear(4, 2)
    local both, list = nn.Sequential(a, b), nn.Sequential { a, b }
    local x = lt.rand(5, 3)
    assert.same(b(a(x)):totable(), both(x):totable())
    assert.same(both(x):totable(), list(x):totable())
    assert.is_true(both:get(2) == b)
    assert.equal(4, #both:parameters())
    fails("Sequential: it needs at least one module", nn.Sequential)
    fails("Sequential: element 2 is a function; it must be a module", nn.Sequential, a, lt.relu)
  end)

  it("gives the numbers and gradients of the unfused modules", function()
    for _, class in ipairs { "ReLU", "Sigmoid", "Tanh", "GELU", "LeakyReLU" } do
      lt.manual_seed(2)
      local linear, activation = nn.Linear(7, 5):to "float64", nn[class]()
      local fused = nn.Sequential(linear, activation)
      local x = lt.randn({ 6, 7 }, "float64"):requires_grad_()
      local y = activation(linear(x))
      assert.close(fused(x), y, 1e-14)
      local plain = { lt.grad(y:square():sum(), { x, linear.weight, linear.bias }) }
      local together = { lt.grad(fused(x):square():sum(), { x, linear.weight, linear.bias }) }
      for i = 1, 3 do assert.close(together[i], plain[i], 1e-13) end
    end
  end)

  it("fuses only what it knows", function()
    local Doubled = nn.class("Linear", nn.Linear)
    function Doubled:forward(x) return nn.Linear.forward(self, x) * 2 end
    local Loud = nn.class("ReLU", nn.ReLU)
    function Loud:forward(x) return lt.relu(x) + 1 end
    local doubled, linear = Doubled(3, 3), nn.Linear(3, 3, { activation = "tanh" })
    local x = lt.rand(2, 3)
    assert.same(lt.relu(doubled(x)):totable(), nn.Sequential(doubled, nn.ReLU())(x):totable())
    local plain = nn.Linear(3, 3)
    assert.same((lt.relu(plain(x)) + 1):totable(), nn.Sequential(plain, Loud())(x):totable())
    assert.same(lt.relu(linear(x)):totable(), nn.Sequential(linear, nn.ReLU())(x):totable())
  end)
end)

describe("activation modules", function()
  it("call the operator of their name", function()
    local x = lt.tensor { -2, 0.5, 3 }
    assert.same({ -0.02, 0.5, 3 }, (function()
      local t = nn.LeakyReLU()(x):totable()
      t[1] = tonumber(("%.2f"):format(t[1]))
      return t
    end)())
    assert.close(nn.LeakyReLU(0.5)(x), { -1, 0.5, 3 })
    assert.close(nn.LeakyReLU { slope = 0.25 }(x), { -0.5, 0.5, 3 })
    assert.close(nn.Hardtanh { low = 0, high = 1 }(x), { 0, 0.5, 1 })
    assert.close(nn.Softmax { dim = 1 }(x:reshape(3, 1)), { { math.exp(-2) / (math.exp(-2) + math.exp(0.5) + math.exp(3)) },
      { math.exp(0.5) / (math.exp(-2) + math.exp(0.5) + math.exp(3)) }, { math.exp(3) / (math.exp(-2) + math.exp(0.5) + math.exp(3)) } })
    for _, name in ipairs { "ReLU", "Sigmoid", "Tanh", "GELU", "SiLU", "Mish", "SELU", "ELU", "Softplus", "Hardsigmoid", "Hardswish",
      "LogSigmoid", "Softmax", "LogSoftmax" } do
      assert.same({ 3 }, nn[name]()(x).shape)
      assert.equal(0, nn[name]():count())
    end
    fails("LeakyReLU: unknown option 'slop', did you mean 'slope'?; it knows slope", nn.LeakyReLU, { slop = 1 })
  end)
end)

describe("MLP", function()
  it("is made of its options", function()
    local mlp = nn.MLP { n_in = 6, hidden = { 5, 4 }, n_out = 2, batch_norm = true, dropout = 0.5, activation = "tanh" }
    local classes = {}
    for i, child in ipairs(mlp.layers:children()) do classes[i] = child.module.__class_name end
    assert.same({ "Linear", "BatchNorm1d", "Tanh", "Dropout", "Linear", "BatchNorm1d", "Tanh", "Dropout", "Linear" }, classes)
    assert.same({ 3, 2 }, mlp(lt.rand(3, 6)).shape)
    mlp = nn.MLP { n_in = 6, hidden = { 5 } }
    assert.same({ 3, 5 }, mlp(lt.rand(3, 6)).shape)
    assert.is_true(mlp(lt.randn(3, 6)):amin():item() >= 0) -- relu
    mlp = nn.MLP { n_in = 6, n_out = 2, init = "zeros", bias_init = "ones" }
    assert.same({ { 1, 1 } }, mlp(lt.rand(1, 6)):totable())
  end)

  it("refuses what it cannot build", function()
    fails("MLP: n_in (the size of the last dim of its input) must be given", nn.MLP, { hidden = { 3 } })
    fails("MLP: unknown option 'hiden', did you mean 'hidden'?; it knows n_in, hidden, n_out, activation, dropout, batch_norm, init, bias_init",
      nn.MLP, { n_in = 3, hiden = { 3 } })
    fails("MLP: hidden is 5; it must be a list of sizes, { 400, 400 }", nn.MLP, { n_in = 3, hidden = 5 })
    fails("activation: there is no 'rleu', did you mean 'relu'?; there are relu, sigmoid, tanh, gelu, silu, mish, selu, leaky_relu, elu, "
      .. "softplus, hardtanh, hardsigmoid, hardswish, logsigmoid, softmax, log_softmax", nn.MLP, { n_in = 3, hidden = { 3 }, activation = "rleu" })
  end)
end)

describe("Linear", function()
  it("is x W^T + b, with options", function()
    local linear = nn.Linear(3, 2)
    local x = lt.rand(4, 3)
    assert.close(linear(x), (x:matmul(linear.weight:t()) + linear.bias), 1e-6)
    assert.same({ 2, 5, 2 }, linear(lt.rand(2, 5, 3)).shape)
    local bare = nn.Linear(3, 2, { bias = false, dtype = "float64", init = "ones", activation = "relu" })
    assert.equal(1, #bare:parameters())
    assert.same({ { 6, 6 }, { 0, 0 } }, bare(lt.tensor({ { 1, 2, 3 }, { -1, -2, -3 } }, "float64")):totable())
    assert.equal("Linear 3 -> 2, relu  6\n6 parameters", tostring(bare))
    local bound = 1 / math.sqrt(400)
    local w = nn.Linear(400, 300).weight
    assert.is_true(w:amax():item() < bound and w:amin():item() >= -bound and w:amax():item() > 0.99 * bound)
  end)

  it("refuses sizes that are none", function()
    fails("Linear: sizes are 3 -> nil; both must be whole numbers of at least 1", nn.Linear, 3)
    fails("Linear: sizes are 0 -> 2; both must be whole numbers of at least 1", nn.Linear, 0, 2)
    fails("Linear: sizes are 2.5 -> 2; both must be whole numbers of at least 1", nn.Linear, 2.5, 2)
    fails("Linear: unknown option 'biass', did you mean 'bias'?; it knows bias, activation, init, bias_init, dtype", nn.Linear, 2, 2, { biass = false })
  end)
end)
