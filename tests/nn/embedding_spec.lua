-- Embedding and EmbeddingBag (lua/ltrain/nn/embedding.lua), FieldEmbedding (field_embedding.lua).
local lt = require "ltrain"
local nn = lt.nn
local fails = require "tests.ops.fails"

local function ids(values) return lt.tensor(values, "int64") end

describe("Embedding", function()
  it("looks up rows by 0-based id", function()
    local e = nn.Embedding(4, 3)
    local w = e.weight:totable()
    assert.same({ w[1], w[4], w[1] }, e(ids { 0, 3, 0 }):totable())
    assert.same({ 2, 2, 3 }, e(ids { { 0, 1 }, { 2, 3 } }).shape)
    assert.same({ w[2] }, e(lt.tensor({ 1 }, "int32")):totable())
    assert.equal("Embedding 4 x 3  12\n12 parameters", tostring(e))
    assert.same({ "weight" }, { e:named_parameters()[1].name })
  end)

  it("keeps the padding row at zero, without a gradient", function()
    local e = nn.Embedding(3, 2, { padding = 1, dtype = "float64" })
    assert.same({ 0, 0 }, e.weight[2]:totable())
    e(ids { 0, 1, 1, 2 }):sum():backward()
    assert.same({ 0, 2 }, e.weight.grad.rows:totable())
    local adam = lt.optim.Adam(e, { lr = 0.1, update = "exact", weight_decay = 0.1 })
    adam:step()
    assert.same({ 0, 0 }, e.weight[2]:totable())
    fails("Embedding: padding is 3; it must be an id of the table, 0 to 2", nn.Embedding, 3, 2, { padding = 3 })
  end)

  it("starts as it is told", function()
    lt.manual_seed(8)
    local e = nn.Embedding(300, 50)
    assert.is_true(math.abs(e.weight:detach():mean():item()) < 0.05)
    assert.is_true(math.abs(e.weight:detach():square():mean():item() - 1) < 0.05)
    assert.same({ { 2, 2 } }, nn.Embedding(1, 2, { init = { "constant", 2 } }).weight:totable())
  end)

  it("refuses ids and sizes outside", function()
    local e = nn.Embedding(4, 3)
    fails("Embedding (Embedding 4 x 3): embedding: id 4 at position 2; legal ids are 0 to 3", e, ids { 0, 4 })
    fails("Embedding (Embedding 4 x 3): embedding: input 1 is float32; ids are int32 or int64: convert with x:to(\"int64\")", e, lt.zeros(2))
    fails("Embedding: the table is 0 x 3; rows and width must be whole numbers of at least 1", nn.Embedding, 0, 3)
    fails("Embedding: the table is 4 x nil; rows and width must be whole numbers of at least 1", nn.Embedding, 4)
    fails("Embedding: unknown option 'pading', did you mean 'padding'?; it knows padding, update, l2, init, dtype", nn.Embedding, 4, 3, { pading = 0 })
  end)

  it("survives saving its state", function()
    local a, b = nn.Embedding(5, 3), nn.Embedding(5, 3)
    b:load_state_dict(a:state_dict())
    assert.same(a.weight:totable(), b.weight:totable())
    fails("load_state_dict: 'weight' is [5, 3] in the state and [4, 3] in the model; nothing was loaded", nn.Embedding(4, 3).load_state_dict,
      nn.Embedding(4, 3), a:state_dict())
  end)
end)

describe("EmbeddingBag", function()
  local values = { { 1, 10 }, { 2, 20 }, { 4, 5 } }
  local function bag(mode)
    local b = nn.EmbeddingBag(3, 2, { mode = mode, dtype = "float64" })
    lt.no_grad(function() b.weight:copy_(lt.tensor(values, "float64")) end)
    return b
  end

  it("sums, averages or takes the largest", function()
    local all = ids { { 0, 2 }, { 1, 1 } }
    assert.same({ { 5, 15 }, { 4, 40 } }, bag "sum"(all):totable())
    assert.same({ { 2.5, 7.5 }, { 2, 20 } }, bag "mean"(all):totable())
    assert.same({ { 2.5, 7.5 }, { 2, 20 } }, bag()(all):totable())
    assert.same({ { 4, 10 }, { 2, 20 } }, bag "max"(all):totable())
  end)

  it("takes bags of any length, empty ones too, and weights", function()
    local flat, offsets = ids { 0, 1, 2, 0 }, ids { 0, 3, 3 }
    assert.same({ { 7, 35 }, { 0, 0 }, { 1, 10 } }, bag "sum"(flat, offsets):totable())
    local w = lt.tensor({ 1, 2, 0.5, 3 }, "float64")
    local b = bag "sum"
    local y = b(flat, offsets, w)
    assert.same({ { 7, 52.5 }, { 0, 0 }, { 3, 30 } }, y:totable())
    y:sum():backward()
    assert.same({ { 4, 4 }, { 2, 2 }, { 0.5, 0.5 } }, b.weight.grad:to_dense():totable())
  end)

  it("refuses modes that are none", function()
    local ok, message = pcall(nn.EmbeddingBag, 3, 2, { mode = "sums" })
    if ok then ok, message = pcall(bag "sums", ids { { 0 } }) end
    assert.is_false(ok)
    assert.is_truthy(message:find("mode must be one of 'sum', 'mean', 'max', got the string 'sums'", 1, true), message)
  end)
end)

describe("FieldEmbedding", function()
  local features = { { name = "user", size = 3, kind = "categorical" }, { name = "age", kind = "numeric" },
    { name = "item", size = 4, kind = "categorical" } }

  it("looks up all categorical features in one table", function()
    local e = nn.FieldEmbedding { features = features, dim = 2, dtype = "float64" }
    lt.no_grad(function() e.weight:copy_(lt.arange(1, 21, 1, "float64"):reshape(7, 3)) end) -- [value, value, linear]
    local x, linear, fm = e(ids { { 0, 0 }, { 2, 3 } })
    assert.same({ { 1, 2, 10, 11 }, { 7, 8, 19, 20 } }, x:totable())
    assert.same({ 3 + 12, 9 + 21 }, linear:totable())
    assert.same({ 1 * 10 + 2 * 11, 7 * 19 + 8 * 20 }, fm:totable())
    assert.equal("FieldEmbedding 2 features, 7 rows x 2 + linear  21\n21 parameters", tostring(e))
    assert.same({ "user", "item" }, e.names)
  end)

  it("starts small, its linear weights at zero", function()
    local e = nn.FieldEmbedding { features = { { name = "a", size = 2000 } }, dim = 4 }
    local w = e.weight:detach()
    assert.equal(0, w[{ {}, 5 }]:abs():sum():item())
    assert.is_true(math.abs(w[{ {}, { 1, 4 } }]:square():mean():item() / 1e-4 - 1) < 0.1)
  end)

  it("goes without linear part or FM term", function()
    local e = nn.FieldEmbedding { features = features, dim = 2, linear = false, fm = false }
    assert.equal(14, e:count())
    local x, linear, fm = e(ids { { 0, 0 } })
    assert.same({ 1, 4 }, x.shape)
    assert.is_nil(linear)
    assert.is_nil(fm)
    e = nn.FieldEmbedding { features = features, dim = 2 }:to "float64"
    x = e(ids { { 0, 0 } })
    assert.equal("float64", x.dtype)
  end)

  it("names the feature of an id out of range", function()
    local e = nn.FieldEmbedding { features = features, dim = 2 }
    local ok, message = pcall(function() local x = e(ids { { 0, 0 }, { 1, 4 } }) return x end)
    assert.is_false(ok)
    assert.is_truthy(message:find("feature 'item'", 1, true), message)
    assert.is_truthy(message:find("4", 1, true))
    assert.is_truthy(message:find "^tests/nn/embedding_spec.lua:%d+: FieldEmbedding %(FieldEmbedding 2 features, 7 rows x 2 %+ linear%): field_embedding: ")
    assert.is_false(pcall(e, ids { { 0, 0, 0 } }))
    fails("FieldEmbedding: features must name at least one categorical feature; schema:features() gives them", nn.FieldEmbedding, { features = {} })
    fails("FieldEmbedding: unknown option 'featuers', did you mean 'features'?; it knows features, dim, linear, fm, update, l2, init, dtype",
      nn.FieldEmbedding, { featuers = features })
    fails("FieldEmbedding: feature 1 has no size; give each categorical feature { name =, size = }", nn.FieldEmbedding,
      { features = { { name = "a" } } })
  end)
end)
