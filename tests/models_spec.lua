-- The models of models/: their parts, the formula of each against plain sums, their options and printing.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local function model(name, config) return require("ltrain.models." .. name)(config) end

local features = { { name = "user", size = 3, kind = "categorical" }, { name = "price", kind = "numeric" },
  { name = "item", size = 4, kind = "categorical" } }
local ids = lt.tensor({ { 0, 1 }, { 2, 3 }, { 1, 0 } }, "int64")
local numbers = lt.tensor({ { 0.5 }, { -2 }, { 3 } }, "float64")
local batch = { categorical = ids, numeric = numbers }

local function fill(m)
  m:to "float64"
  lt.manual_seed(9)
  lt.no_grad(function()
    for _, p in ipairs(m:parameters()) do p:normal_(0, 0.5) end
  end)
  return m
end

-- Rows of a table for sample s: user's and item's.
local function rows_of(m, s)
  local w, at = m.table.weight:totable(), ids:totable()
  return w[at[s][1] + 1], w[3 + at[s][2] + 1]
end

local function dot(a, b, n)
  local sum = 0
  for k = 1, n do sum = sum + a[k] * b[k] end
  return sum
end

describe("the model", function()
  it("lr sums the weights of the values", function()
    local m = fill(model("lr", { features = features }))
    local bias, slope, y = m.bias:totable()[1], m.numeric_weight:totable()[1], m(batch):totable()
    for s = 1, 3 do
      local u, i = rows_of(m, s)
      assert.close(y[s], bias + slope * numbers:totable()[s][1] + u[1] + i[1], 1e-12)
    end
    assert.equal(9, m:count())
  end)

  it("fm adds the inner product", function()
    local m = fill(model("fm", { features = features, dim = 2 }))
    local bias, slope, y = m.bias:totable()[1], m.numeric_weight:totable()[1], m(batch):totable()
    for s = 1, 3 do
      local u, i = rows_of(m, s)
      assert.close(y[s], bias + slope * numbers:totable()[s][1] + u[3] + i[3] + dot(u, i, 2), 1e-12)
    end
  end)

  it("deepfm adds an MLP over the same embeddings", function()
    local m = fill(model("deepfm", { features = features, dim = 2, hidden = { 3 } }))
    local bias, slope, y = m.bias:totable()[1], m.numeric_weight:totable()[1], m(batch):totable()
    local w1, b1 = m.mlp.layers:get(1).weight:totable(), m.mlp.layers:get(1).bias:totable()
    local w2, b2 = m.mlp.layers:get(3).weight:totable()[1], m.mlp.layers:get(3).bias:totable()[1]
    for s = 1, 3 do
      local u, i = rows_of(m, s)
      local n = numbers:totable()[s][1]
      local x, deep = { u[1], u[2], i[1], i[2], n }, b2
      for k = 1, 3 do deep = deep + w2[k] * math.max(0, b1[k] + dot(w1[k], x, 5)) end
      assert.close(y[s], bias + slope * n + u[3] + i[3] + dot(u, i, 2) + deep, 1e-12)
    end
    m(batch):sum():backward()
    for _, p in ipairs(m:parameters()) do assert.is_truthy(p.grad) end
  end)

  it("takes ids alone where there are no numbers", function()
    local two = { features[1], features[3] }
    for _, name in ipairs { "lr", "fm", "deepfm" } do
      local m = model(name, { features = two })
      assert.same({ 3 }, m(ids).shape)
      assert.same(m(ids):totable(), m({ categorical = ids }):totable())
    end
  end)

  it("mlp is a perceptron on dense inputs", function()
    local m = model("mlp", { n_in = 6, hidden = { 5 }, n_out = 2 })
    assert.same({ 4, 2 }, m(lt.rand(4, 6)).shape)
    assert.equal(6 * 5 + 5 + 5 * 2 + 2, m:count())
    assert.equal(784 * 512 + 512 + 512 * 256 + 256 + 2560 + 10, model("mlp", { n_in = 784, hidden = { 512, 256 }, n_out = 10 }):count())
  end)

  it("prints its parts", function()
    assert.equal(table.concat({ "DeepFM  93",
      "  (table) FieldEmbedding 2 features, 7 rows x 4 + linear  35",
      "  (mlp) MLP  56",
      "    (layers) Sequential  56",
      "      (1) Linear 9 -> 5  50",
      "      (2) ReLU",
      "      (3) Linear 5 -> 1  6",
      "93 parameters" }, "\n"), tostring(model("deepfm", { features = features, dim = 4, hidden = { 5 } })))
  end)

  it("takes options, and suggests the nearest", function()
    local m = model("deepfm", { features = features, dim = 2, hidden = { 4 }, dropout = 0.5, batch_norm = true, activation = "tanh",
      embedding_l2 = 0.1, update = "exact", embedding_init = "zeros", init = "zeros" })
    assert.equal(0, m.table.weight:abs():sum():item())
    assert.same({ 3 }, m({ categorical = ids, numeric = numbers:float() }).shape)
    assert.same({ "exact", 0.1 }, { m.table.update, m.table.l2 })
    fails("deepfm: unknown option 'hiden', did you mean 'hidden'?; it knows features, dim, hidden, dropout, batch_norm, activation, embedding_l2, "
      .. "update, embedding_init, init", model, "deepfm", { features = features, hiden = {} })
    fails("fm: features must be given, for instance schema:features()", model, "fm", { dim = 3 })
    fails("lr: unknown option 'dim'; it knows features, l2, update", model, "lr", { features = features, dim = 3 })
  end)

  it("raises at the user's line, naming the part", function()
    local m = model("deepfm", { features = features, dim = 2, hidden = { 4 } })
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, message = pcall(function() local y = m({ categorical = ids, numeric = lt.zeros(3, 2) }) return y end)
    assert.is_false(ok)
    assert.is_truthy(message:find(("tests/models_spec.lua:%d: DeepFM.mlp.layers.1 (Linear 5 -> 4): linear: "):format(line), 1, true), message)
    line = debug.getinfo(1, "l").currentline + 1
    ok, message = pcall(function() local y = model("deepfm", { featuers = features }) return y end)
    assert.is_false(ok)
    assert.is_truthy(message:find(("tests/models_spec.lua:%d: deepfm: unknown option"):format(line), 1, true), message)
  end)
end)
