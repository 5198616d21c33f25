-- Reading and writing at ids, masks, counts: values against plain loops, every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"

local DTYPES = { "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8" }
local function ids(values) return lt.tensor(values, "int64") end

-- Repeatable whole numbers in a table of a shape, for plain loops.
local function numbers(seed, rows, columns, limit)
  local t = {}
  for i = 1, rows do
    t[i] = {}
    for j = 1, columns do
      seed = (seed * 69069 + 12345) % 2 ^ 31
      t[i][j] = math.floor(seed / 256) % limit
    end
  end
  return t
end

describe("gather and scatter", function()
  local x, at = numbers(1, 6, 5, 100), numbers(2, 6, 7, 5)
  local source = numbers(3, 6, 7, 50)

  it("follow their formulas in every dtype", function()
    local read, added, put = {}, {}, {}
    for i = 1, 6 do
      read[i], added[i], put[i] = {}, { unpack(x[i]) }, { unpack(x[i]) }
      for j = 1, 7 do
        local k = at[i][j] + 1
        read[i][j] = x[i][k]
        added[i][k] = added[i][k] + source[i][j]
        put[i][k] = source[i][j]
      end
    end
    for _, dtype in ipairs(DTYPES) do
      for _, kind in ipairs { "int64", "int32" } do
        local where = lt.tensor(at, kind)
        assert.same(read, lt.gather(lt.tensor(x, dtype), 2, where):totable())
        assert.same(put, lt.scatter(lt.tensor(x, dtype), 2, where, lt.tensor(source, dtype)):totable())
        if dtype ~= "bfloat16" then -- sums above 256 need more digits
          assert.same(added, lt.scatter_add(lt.tensor(x, dtype), 2, where, lt.tensor(source, dtype)):totable())
        end
      end
    end
  end)

  it("take a dim in the middle, strided tensors and narrower ids", function()
    local y = lt.arange(1, 24):reshape(2, 3, 4)
    local rows = y:totable()
    local where = ids { { { 2, 0, 1 }, { 1, 1, 1 } }, { { 0, 0, 2 }, { 2, 1, 0 } } } -- [2, 2, 3]
    local w, expected = where:totable(), {}
    for i = 1, 2 do
      expected[i] = {}
      for j = 1, 2 do
        expected[i][j] = {}
        for k = 1, 3 do expected[i][j][k] = rows[i][w[i][j][k] + 1][k] end
      end
    end
    assert.same(expected, y:gather(2, where):totable())
    assert.same(expected, y:permute(3, 2, 1):gather(2, where:permute(3, 2, 1)):permute(3, 2, 1):totable())
    local z = lt.zeros(2, 3, 4):scatter_add(2, where, lt.ones(2, 2, 3))
    assert.equal(12, z:sum():item())
    assert.equal(2, z[{ 1, 2, 3 }]:item()) -- twice at row 1 of column 2
  end)

  it("work in place, on views too", function()
    local y = lt.zeros(3, 4)
    y:slice(2, 1, -1, 2):scatter_add_(2, ids { { 0 }, { 1 }, { 0 } }, lt.ones(3, 1))
    assert.same({ { 1, 0, 0, 0 }, { 0, 0, 1, 0 }, { 1, 0, 0, 0 } }, y:totable())
    y:scatter_(1, ids { { 2, 2, 2, 2 } }, lt.full({ 1, 4 }, 7))
    assert.same({ 7, 7, 7, 7 }, y[3]:totable())
  end)

  it("sum in the same order for any number of threads", function()
    lt.manual_seed(1)
    local where, what = lt.randint(0, 50, { 400, 300 }), lt.randn { 400, 300 }
    local lines, columns = lt.zeros(400, 50), lt.zeros(50, 300)
    local before = lt.threads()
    local a, b = lines:scatter_add(2, where, what), columns:scatter_add(1, where, what)
    lt.threads(1)
    assert.is_true(lines:scatter_add(2, where, what):eq(a):all():item())
    assert.is_true(columns:scatter_add(1, where, what):eq(b):all():item())
    lt.threads(before)
  end)

  it("only the last writer gets scatter's gradient", function()
    local y = lt.tensor({ 1, 2, 3 }, { requires_grad = true })
    local s = lt.tensor({ 4, 5, 6 }, { requires_grad = true })
    local z = y:scatter(1, ids { 1, 0, 1 }, s) * lt.tensor { 10, 100, 1000 }
    assert.same({ 50, 600, 3000 }, z:totable())
    z:sum():backward()
    assert.same({ 0, 0, 1000 }, y.grad:totable())
    assert.same({ 0, 10, 100 }, s.grad:totable())
  end)

  it("say what does not fit", function()
    local y = lt.zeros(2, 3)
    fails("gather: id 3 at position [2, 1]; legal ids are 0 to 2 (dim 2 of [2, 3])",
      lt.gather, y, 2, ids { { 0 }, { 3 } })
    fails("gather: id -1 at position [1, 2]; legal ids are 0 to 1 (dim 1 of [2, 3])",
      lt.gather, y, 1, ids { { 0, -1 } })
    fails("gather: id 5 at position 1; dim 1 of [0] is empty, so no id is legal", lt.gather, lt.zeros(0), 1, ids { 5 })
    fails("gather: ids are [3, 1] and the tensor [2, 3]; both need the same number of dims, and ids may be longer only "
      .. "along dim 2", lt.gather, y, 2, ids { { 0 }, { 1 }, { 0 } })
    fails("gather: ids are [2] and the tensor [2, 3]; both need the same number of dims, and ids may be longer only "
      .. "along dim 1", lt.gather, y, 1, ids { 0, 1 })
    fails('gather: input 2 is float32; ids are int32 or int64: convert with x:to("int64")',
      lt.gather, y, 1, lt.zeros(1, 3))
    fails("scatter_add: ids are [1, 2] and source [1, 3]; they must agree",
      lt.scatter_add, y, 1, ids { { 0, 1 } }, lt.zeros(1, 3))
    fails("scatter: id 2 at position [1, 1]; legal ids are 0 to 1 (dim 1 of [2, 3])",
      lt.scatter, y, 1, ids { { 2 } }, lt.zeros(1, 1))
    fails('scatter_add: the tensor is bool and cannot be added to; convert with x:to("int64")',
      lt.scatter_add, y:to "bool", 1, ids { { 0 } }, lt.zeros({ 1, 1 }, "bool"))
  end)
end)

describe("rows", function()
  it("index_select and index_add follow their formulas", function()
    local x, at = numbers(4, 40, 9, 100), numbers(5, 1, 60, 40)[1]
    local read, added = {}, {}
    for i = 1, 40 do added[i] = { unpack(x[i]) } end
    for k, id in ipairs(at) do
      read[k] = x[id + 1]
      for j = 1, 9 do added[id + 1][j] = added[id + 1][j] + x[id + 1][j] end
    end
    for _, dtype in ipairs(DTYPES) do
      local t, where = lt.tensor(x, dtype), lt.tensor(at, "int32")
      assert.same(read, t:index_select(1, where):totable())
      assert.same(read, t:t():contiguous():index_select(2, where):t():totable())
      assert.same(read, t:t():index_select(2, where):t():totable())
      if dtype == "float32" or dtype == "float64" or dtype == "int64" or dtype == "int32" then
        assert.same(added, lt.index_add(t, where, lt.tensor(read, dtype)):totable())
        local wide = lt.zeros({ 40, 18 }, dtype)
        local view = wide:slice(2, 1, -1, 2)
        view:copy_(t)
        view:index_add_(where, lt.tensor(read, dtype))
        assert.same(added, view:totable())
      end
    end
  end)

  it("are added in the same order for any number of threads", function()
    lt.manual_seed(2)
    for _, width in ipairs { 3, 200 } do
      local x, where, rows = lt.zeros(100, width), lt.randint(0, 100, { 3000 }), lt.randn { 3000, width }
      local before = lt.threads()
      local a = x:index_add(where, rows)
      lt.threads(1)
      assert.is_true(x:index_add(where, rows):eq(a):all():item())
      lt.threads(before)
    end
  end)

  it("say what does not fit", function()
    local x = lt.zeros(2, 3)
    fails("index_select: id 2 at position 2; legal ids are 0 to 1 (dim 1 of [2, 3])",
      lt.index_select, x, 1, ids { 0, 2 })
    fails("index_select: the row ids are [1, 1]; they must be one dim", lt.index_select, x, 1, ids { { 0 } })
    fails("index_add: id -1 at position 1; legal ids are 0 to 1 (rows of [2, 3])",
      lt.index_add, x, ids { -1 }, lt.zeros(1, 3))
    fails("index_add: 2 row ids and values of shape [1, 3] do not fit a tensor of shape [2, 3]",
      lt.index_add, x, ids { 0, 1 }, lt.zeros(1, 3))
    fails("index_add: the values are float64 and the tensor float32; they must agree",
      lt.index_add, x, ids { 0 }, lt.zeros({ 1, 3 }, "float64"))
  end)
end)

describe("masks", function()
  local mask = lt.tensor({ { true, false, true }, { false, false, true } }):keep()

  it("masked_fill and masked_select in every dtype", function()
    for _, dtype in ipairs(DTYPES) do
      local x = lt.arange(1, 6):reshape(2, 3):to(dtype)
      assert.same({ { 9, 2, 9 }, { 4, 5, 9 } }, x:masked_fill(mask, 9):totable())
      assert.same({ 1, 3, 6 }, x:masked_select(mask):totable())
      assert.same({ 1, 3, 6 }, x[mask]:totable())
      x:masked_fill_(x:gt(4), 0)
      assert.same({ { 1, 2, 3 }, { 4, 0, 0 } }, x:totable())
    end
    assert.same({ { -math.huge, 1 }, { -math.huge, 1 } },
      lt.ones(2, 2):masked_fill(lt.tensor { true, false }, -math.huge):totable())
    assert.same({ 0 }, lt.zeros(2, 3):masked_select(lt.zeros({ 2, 3 }, "bool")).shape)
  end)

  it("masked_select takes large masks in order", function()
    local x = lt.arange(1, 200000, { dtype = "int64" })
    local even = x:mod(2):eq(0)
    assert.is_true(x:masked_select(even):eq(lt.arange(2, 200000, 2, "int64")):all():item())
    assert.is_true(even:nonzero():select(2, 1):eq(lt.arange(1, 199999, 2, "int64")):all():item())
  end)

  it("say what does not fit", function()
    fails('masked_fill: input 2 is float32 and must be bool: convert with x:to("bool")',
      lt.masked_fill, lt.zeros(2), lt.zeros(2), 1)
    fails("masked_fill: the value 0.5 cannot be held by a tensor of int64",
      lt.masked_fill, ids { 1, 2 }, lt.zeros({ 2 }, "bool"), 0.5)
    fails("masked_fill: the value 300 is outside the range of uint8",
      lt.masked_fill, lt.zeros({ 2 }, "uint8"), lt.zeros({ 2 }, "bool"), 300)
    fails("masked_select: the tensor is [3] and the mask [2, 3]; they must agree (mask:expand(...) repeats it)",
      lt.masked_select, lt.zeros(3), mask)
  end)
end)

describe("counting", function()
  it("nonzero, one_hot, bincount", function()
    assert.same({ { 0, 1 }, { 1, 0 }, { 1, 2 } }, lt.tensor({ { 0, 2, 0 }, { -1, 0, 0 / 0 } }):nonzero():totable())
    assert.same({ 0, 3 }, lt.zeros(2, 2, 2):nonzero().shape)
    assert.same({ 1, 0 }, lt.tensor(5):nonzero().shape)
    assert.same({ { { 0, 0, 1 } }, { { 1, 0, 0 } } }, lt.one_hot(ids { { 2 }, { 0 } }, 3):totable())
    assert.same({ 1, 0, 2, 0, 0 }, lt.bincount(ids { 2, 0, 2 }, { bins = 5 }):totable())
    assert.same({ 0.5, 0, 3 }, lt.bincount(ids { 2, 0, 2 }, lt.tensor { 1, 0.5, 2 }):totable())
    assert.equal("float64", lt.bincount(ids { 2, 0, 2 }, lt.tensor { 1, 0.5, 2 }).dtype)
    assert.same({ 0 }, lt.bincount(ids {}).shape)
  end)

  it("say what does not fit", function()
    fails("one_hot: id 3 at position 2; legal ids are 0 to 2 (3 classes)", lt.one_hot, ids { 0, 3 }, 3)
    fails("one_hot: -1 classes; the count must not be negative", lt.one_hot, ids { 0 }, -1)
    fails('one_hot: input 1 is float32; ids are int32 or int64: convert with x:to("int64")', lt.one_hot, lt.zeros(2), 3)
    fails("bincount: ids are [1, 2]; they must be one dim: x:flatten()", lt.bincount, ids { { 1, 2 } })
    fails("bincount: id -1 at position 1; legal ids are 0 to 1099511627775 (bins)", lt.bincount, ids { -1 })
    fails("bincount: ids are [2] and weights [1]; they must agree", lt.bincount, ids { 0, 1 }, lt.zeros(1))
  end)
end)
