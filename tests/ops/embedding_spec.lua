-- embedding, embedding_bag, field_embedding: values and gradients against plain loops in double, the same bits for any
-- number of threads, every error's text.
local lt = require "ltrain"
local fails = require "tests.ops.fails"
local lookups = require "tests.ops.lookups"

local TABLE = { { 0.5, -1.25, 2 }, { 1.5, 0.25, -0.75 }, { -0.5, 1, 0.125 }, { 2.25, -0.5, 1.5 } }

local function ids_of(list, dtype) return lt.tensor(list, dtype or "int64") end

describe("embedding", function()
  it("gives rows by id, for ids of any shape", function()
    for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
      local w = lt.tensor(TABLE, dtype)
      local y = lt.embedding(ids_of { { 3, 0 }, { 1, 1 } }, w)
      assert.equal(dtype, y.dtype)
      assert.same({ { TABLE[4], TABLE[1] }, { TABLE[2], TABLE[2] } }, y:totable())
    end
    local w = lt.tensor(TABLE)
    assert.same(TABLE[3], lt.embedding(lt.tensor(2, "int32"), w):totable())
    assert.same({ 0, 3 }, lt.embedding(lt.zeros({ 0 }, "int64"), w).shape)
  end)

  it("reads tables with padded and turned rows", function()
    local ids = ids_of({ 2, 0, 2 }, "int32")
    assert.same({ TABLE[3], TABLE[1], TABLE[3] }, lt.embedding(ids, lookups.table(TABLE, "float32")):totable())
    local turned = lt.tensor(TABLE):t():contiguous():t()
    assert.same({ TABLE[3], TABLE[1], TABLE[3] }, lt.embedding(ids, turned):totable())
  end)

  it("agrees with its fallback of plain operators", function()
    local w, ids = lookups.table(TABLE, "float32"), ids_of { { 2, 0 }, { 3, 2 } }
    assert.same(lt.embedding(ids, w):totable(), lookups.fallback("embedding", { ids, w }, { -1 }):totable())
    fails("add: no cpu kernel; move the input with x:to(\"cpu\")", lookups.fallback, "add", { w, w }, {})
  end)

  it("keeps the gradient as distinct rows and their sums in order", function()
    local w = lt.tensor(TABLE, { dtype = "float64", requires_grad = true })
    local y = lt.embedding(ids_of { 3, 1, 3, 0, 3 }, w)
    local g = lt.tensor({ { 1, 2, 3 }, { 4, 5, 6 }, { 0.1, 0.2, 0.3 }, { 7, 8, 9 }, { 1e-20, 1e16, -3 } }, "float64")
    y:backward { grad = g }
    local rows, values = lookups.grad_rows(w)
    assert.same({ 0, 1, 3 }, rows)
    assert.same({ { 7, 8, 9 }, { 4, 5, 6 }, { 1 + 0.1 + 1e-20, 2 + 0.2 + 1e16, 3 + 0.3 - 3 } }, values)
  end)

  it("gives the padding id no gradient", function()
    local w = lt.tensor(TABLE, { requires_grad = true })
    lt.embedding(ids_of { 2, 0, 2, 1 }, w, { padding = 2 }):sum():backward()
    local rows, values = lookups.grad_rows(w)
    assert.same({ 0, 1 }, rows)
    assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, values)
    w:set_grad(nil)
    lt.embedding(ids_of { 2, 2 }, w, { padding = 2 }):sum():backward()
    assert.same({}, (lookups.grad_rows(w)))
  end)

  it("merges two look-ups, and becomes dense beside a dense gradient", function()
    local w = lt.tensor(TABLE, { requires_grad = true })
    lt.embedding(ids_of { 2, 0 }, w):sum():backward()
    lt.embedding(ids_of { 3, 2 }, w):sum():backward()
    local rows, values = lookups.grad_rows(w)
    assert.same({ 0, 2, 3 }, rows)
    assert.same({ { 1, 1, 1 }, { 2, 2, 2 }, { 1, 1, 1 } }, values)
    w:sum():backward()
    assert.same({ { 2, 2, 2 }, { 1, 1, 1 }, { 3, 3, 3 }, { 2, 2, 2 } }, w.grad:totable())
  end)

  it("adds up large batches as a plain loop does, with the same bits for any number of threads", function()
    local number, n, n_rows, width = lookups.numbers(7), 9000, 70000, 5
    local list = {}
    for i = 1, n do list[i] = math.floor(number() * number() * n_rows) end
    local grads = lookups.matrix(number, n, width)
    local ids, g = ids_of(list, "int32"), lt.tensor(grads, "float64")
    local sums, order = {}, {}
    for i, id in ipairs(list) do
      if not sums[id] then
        sums[id] = { 0, 0, 0, 0, 0 }
        order[#order + 1] = id
      end
      for k = 1, width do sums[id][k] = sums[id][k] + grads[i][k] end
    end
    table.sort(order)
    local w = lt.zeros({ n_rows, width }, "float64"):requires_grad_()
    lookups.same_for_threads(function()
      w:set_grad(nil)
      lt.embedding(ids, w):backward { grad = g }
      local rows, values, tensor = lookups.grad_rows(w)
      assert.same(order, rows)
      for i = 1, #rows, 97 do assert.same(sums[rows[i]], values[i]) end
      return lookups.bytes(tensor)
    end)
  end)

  it("says which id is wrong, and where", function()
    local w = lt.zeros { 10, 2 }
    fails("embedding: id 17 at position 3; legal ids are 0 to 9", lt.embedding, ids_of { 1, 9, 17, -4 }, w)
    fails("embedding: id -1 at position [2, 1]; legal ids are 0 to 9", lt.embedding, ids_of({ { 1, 2 }, { -1, 3 } },
      "int32"), w)
    fails("embedding: id 0 at position 1; the table has no rows", lt.embedding, ids_of { 0 }, lt.zeros { 0, 2 })
    fails("embedding: input 1 is float32; ids are int32 or int64: convert with x:to(\"int64\")", lt.embedding,
      lt.zeros { 2 }, w)
    fails("embedding: the table is [10]; it must be [rows, width]", lt.embedding, ids_of { 1 }, lt.zeros { 10 })
    fails("embedding: input 2 is int64; it must be a floating type: convert with x:to(\"float32\")", lt.embedding,
      ids_of { 1 },
      lt.zeros({ 2, 2 }, "int64"))
    local half = lt.zeros({ 3, 2 }, "bfloat16"):requires_grad_()
    local y = lt.embedding(ids_of { 1 }, half):sum()
    fails("embedding: gradients of a bfloat16 table; tables that are trained are float32 or float64", y.backward, y)
    -- the first wrong id of a long list, whatever thread finds it
    local many = lt.zeros({ 300, 200 }, "int64")
    lookups.same_for_threads(function()
      many:slice(1, 151, 151):slice(2, 7, 7):fill_(10)
      many:slice(1, 299, 299):fill_(11)
      fails("embedding: id 10 at position [151, 7]; legal ids are 0 to 9", lt.embedding, many, w)
      return ""
    end)
  end)
end)

describe("embedding_bag", function()
  local w = lt.tensor(TABLE, "float64")
  local list = ids_of { 2, 0, 2, 3, 1 }
  local starts = ids_of { 0, 3, 3 }

  it("sums, averages and takes the largest of each bag", function()
    local function row(f) return { f(1), f(2), f(3) } end
    assert.same({ row(function(k) return TABLE[3][k] + TABLE[1][k] + TABLE[3][k] end), { 0, 0, 0 },
      row(function(k) return TABLE[4][k] + TABLE[2][k] end) }, lt.embedding_bag(list, w, starts,
        { mode = "sum" }):totable())
    assert.close(lt.embedding_bag(list, w, starts):totable(),
      { row(function(k) return (2 * TABLE[3][k] + TABLE[1][k]) / 3 end), { 0, 0, 0 },
      row(function(k) return (TABLE[4][k] + TABLE[2][k]) / 2 end) }, 1e-15)
    assert.same({ row(function(k) return math.max(TABLE[3][k], TABLE[1][k]) end), { 0, 0, 0 },
      row(function(k) return math.max(TABLE[4][k], TABLE[2][k]) end) }, lt.embedding_bag(list, w, starts,
        { mode = "max" }):totable())
    assert.same({ row(function(k) return 0.5 * TABLE[3][k] - 2 * TABLE[2][k] end) },
      lt.embedding_bag(ids_of { { 2, 1 } }, w, nil, lt.tensor({ { 0.5, -2 } }, "float64"), { mode = "sum" }):totable())
  end)

  it("leaves padding out of counts, values and gradients", function()
    local leaf = w:clone():requires_grad_()
    for _, mode in ipairs { "mean", "max" } do
      leaf:set_grad(nil)
      local y = lt.embedding_bag(list, leaf, starts, { mode = mode, padding = 2 })
      assert.same({ TABLE[1], { 0, 0, 0 } }, { y:totable()[1], y:totable()[2] })
      y:sum():backward()
      assert.same({ 0, 1, 3 }, (lookups.grad_rows(leaf)))
    end
  end)

  it("says what does not fit", function()
    fails("embedding_bag: id 9 at position 2; legal ids are 0 to 3", lt.embedding_bag, ids_of { 0, 9 }, w, ids_of { 0 })
    fails("embedding_bag: the ids are [2]; without offsets they must be [bags, ids of a bag]", lt.embedding_bag,
      ids_of { 0, 1 }, w)
    fails("embedding_bag: the ids are [1, 2] and the offsets [1]; with offsets both must be one dim",
      lt.embedding_bag, ids_of { { 0, 1 } }, w, ids_of { 0 })
    fails("embedding_bag: bag 3 starts at 1 and the one before at 2; " ..
      "offsets must not fall nor pass 3, the number of ids", lt.embedding_bag,
      ids_of { 0, 1, 2 }, w, ids_of { 0, 2, 1 })
    fails("embedding_bag: bag 2 starts at 4 and the one before at 0; " ..
      "offsets must not fall nor pass 3, the number of ids", lt.embedding_bag,
      ids_of { 0, 1, 2 }, w, ids_of { 0, 4 })
    fails("embedding_bag: the first bag starts at 1; it must start at 0", lt.embedding_bag, ids_of { 0, 1 }, w,
      ids_of { 1 })
    fails("embedding_bag: 2 ids and no offsets; every id belongs to a bag", lt.embedding_bag, ids_of { 0, 1 }, w,
      ids_of {})
    fails("embedding_bag: weights go with mode = \"sum\" only; the mode is \"mean\"", lt.embedding_bag,
      ids_of { { 0 } }, w, nil,
      lt.zeros({ 1, 1 }, "float64"))
    fails("embedding_bag: the weights are [1] float64; they must be float64 like the table and [1, 1] like the ids",
      lt.embedding_bag, ids_of { { 0 } }, w,
      nil, lt.zeros({ 1 }, "float64"), { mode = "sum" })
    fails("embedding_bag: the table is int64; it must be float32 or float64", lt.embedding_bag, ids_of { { 0 } },
      lt.zeros({ 1, 1 }, "int64"))
    fails("embedding_bag: the table is [4]; it must be [rows, width]", lt.embedding_bag, ids_of { { 0 } },
      lt.zeros { 4 })
  end)
end)

describe("field_embedding", function()
  -- batch, fields and what a plain loop makes of them
  local function problem(dim, sizes, batch, seed)
    local number, p = lookups.numbers(seed), { dim = dim, sizes = sizes, batch = batch, offsets = {}, ids = {} }
    local rows = 0
    for f, size in ipairs(sizes) do
      p.offsets[f] = rows
      rows = rows + size
    end
    p.table = lookups.matrix(number, rows, dim + 1)
    for s = 1, batch do
      p.ids[s] = {}
      for f, size in ipairs(sizes) do p.ids[s][f] = math.floor(number() * number() * size) end
    end
    p.gx, p.gl, p.gf = lookups.matrix(number, batch, dim * #sizes), lookups.matrix(number, 1, batch)[1],
      lookups.matrix(number, 1, batch)[1]
    return p
  end
  local function forward_loop(p)
    local x, linear, fm, sums = {}, {}, {}, {}
    for s = 1, p.batch do
      x[s], linear[s], fm[s], sums[s] = {}, 0, 0, {}
      for k = 1, p.dim do sums[s][k] = 0 end
      local squares = 0
      for f = 1, #p.sizes do
        local row = p.table[p.offsets[f] + p.ids[s][f] + 1]
        for k = 1, p.dim do
          x[s][#x[s] + 1] = row[k]
          sums[s][k] = sums[s][k] + row[k]
          squares = squares + row[k] * row[k]
        end
        linear[s] = linear[s] + row[p.dim + 1]
      end
      for k = 1, p.dim do fm[s] = fm[s] + sums[s][k] * sums[s][k] end
      fm[s] = (fm[s] - squares) / 2
    end
    return x, linear, fm, sums
  end
  -- d (gx . x + gl . linear + gf . fm) / d table
  local function gradient_loop(p)
    local _, _, _, sums = forward_loop(p)
    local rows, total = {}, {}
    for s = 1, p.batch do
      for f = 1, #p.sizes do
        local id = p.offsets[f] + p.ids[s][f]
        if not total[id] then
          rows[#rows + 1], total[id] = id, {}
          for k = 1, p.dim + 1 do total[id][k] = 0 end
        end
        for k = 1, p.dim do
          local e = p.table[id + 1][k]
          total[id][k] = total[id][k] + p.gx[s][(f - 1) * p.dim + k] + p.gf[s] * (sums[s][k] - e)
        end
        total[id][p.dim + 1] = total[id][p.dim + 1] + p.gl[s]
      end
    end
    table.sort(rows)
    local values = {}
    for i, id in ipairs(rows) do values[i] = total[id] end
    return rows, values
  end
  local function tensors(p, dtype)
    return ids_of(p.ids, "int32"), lookups.table(p.table, dtype):requires_grad_(), ids_of(p.offsets), ids_of(p.sizes)
  end

  it("gives what plain loops give, for common and odd widths", function()
    for _, dim in ipairs { 1, 3, 8, 10, 16, 17, 40 } do
      local p = problem(dim, { 5, 1, 40, 7 }, 33, dim)
      local ids, w, offsets, sizes = tensors(p, "float64")
      local x, linear, fm, sums = lt.field_embedding(ids, w, offsets, sizes, { linear = true, fm = true })
      local ex, el, ef, es = forward_loop(p)
      assert.same(ex, x:totable())
      assert.close(linear, el, 1e-13)
      assert.close(fm, ef, 1e-13)
      assert.close(sums, es, 1e-13)
      local total = (x * lt.tensor(p.gx, "float64")):sum() + (linear * lt.tensor(p.gl,
        "float64")):sum() + (fm * lt.tensor(p.gf, "float64")):sum()
      total:backward()
      local rows, values = lookups.grad_rows(w)
      local expected_rows, expected = gradient_loop(p)
      assert.same(expected_rows, rows)
      assert.close(values, expected, 1e-12)
    end
  end)

  it("gives only what is asked for", function()
    local p = problem(4, { 5, 3 }, 6, 3)
    local ids, w, offsets, sizes = tensors(p, "float32")
    local x, linear, fm, sums = lt.field_embedding(ids, w, offsets, sizes)
    assert.same({ 6, 10 }, x.shape) -- the linear column is part of the row here
    assert.same({ { 0 }, { 0 }, { 0, 5 } }, { linear.shape, fm.shape, sums.shape })
    x, linear, fm = lt.field_embedding(ids, w, offsets, sizes, true)
    assert.same({ { 6, 8 }, { 6 }, { 0 } }, { x.shape, linear.shape, fm.shape })
    -- each output alone has its gradient
    linear:sum():backward()
    local _, values = lookups.grad_rows(w)
    for _, row in ipairs(values) do assert.same({ 0, 0, 0, 0 }, { row[1], row[2], row[3], row[4] }) end
  end)

  it("serves a table of linear weights alone", function()
    local w = lt.tensor({ { 1 }, { 2 }, { 3 } }, { requires_grad = true })
    local x, linear = lt.field_embedding(ids_of { { 0, 1 }, { 1, 1 } }, w, ids_of { 0, 1 }, ids_of { 2, 2 }, true)
    assert.same({ 2, 0 }, x.shape)
    assert.same({ 4, 5 }, linear:totable())
    linear:sum():backward()
    local rows, values = lookups.grad_rows(w)
    assert.same({ { 0, 1, 2 }, { { 1 }, { 1 }, { 2 } } }, { rows, values })
  end)

  it("has a gradient through the sums too", function()
    local p = problem(3, { 4, 5 }, 7, 5)
    local ids, w, offsets, sizes = tensors(p, "float64")
    local _, _, _, sums = lt.field_embedding(ids, w, offsets, sizes, true, true)
    local weights = lt.tensor(lookups.matrix(lookups.numbers(1), 7, 3), "float64")
    local weighted = sums * weights
    weighted:sum():backward()
    local _, by_sums = lookups.grad_rows(w)
    w:set_grad(nil)
    local x = lt.field_embedding(ids, w, offsets, sizes, true)
    weighted = x:reshape(7, 2, 3):sum(2) * weights
    weighted:sum():backward()
    local _, by_x = lookups.grad_rows(w)
    assert.close(by_sums, by_x, 1e-14)
  end)

  it("gives padding ids of every feature no gradient", function()
    local p = problem(2, { 3, 3 }, 40, 11)
    local ids, w, offsets, sizes = tensors(p, "float64")
    local x, linear, fm = lt.field_embedding(ids, w, offsets, sizes, { linear = true, fm = true, padding = 0 })
    local weights = lt.tensor(p.gx, "float64")
    local function total() return (x * weights):sum() + linear:sum() + fm:sum() end
    total():backward()
    local rows, values = lookups.grad_rows(w)
    assert.same({ 1, 2, 4, 5 }, rows)
    -- the rule made of operators agrees
    x, linear, fm = lt.field_embedding(ids, w, offsets, sizes, { linear = true, fm = true, padding = 0 })
    local dense = lt.grad(total(), w, { create_graph = true }):totable()
    for i, row in ipairs(rows) do assert.close(dense[row + 1], values[i], 1e-12) end
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 } }, { dense[1], dense[4] })
  end)

  it("has the same bits for any number of threads, whichever way the rows are found", function()
    local sizes, shared = {}, {}
    for f = 1, 26 do sizes[f] = f % 3 == 0 and 5 or 3000 end
    local p = problem(10, sizes, 1500, 17)
    local ids, w, _, size_tensor = tensors(p, "float32")
    for f = 1, 26 do shared[f] = 0 end
    for _, offsets in ipairs { ids_of(p.offsets), ids_of(shared) } do
      lookups.same_for_threads(function()
        w:set_grad(nil)
        local x, linear, fm = lt.field_embedding(ids, w, offsets, size_tensor, true, true)
        local y = x:sum(2) + linear * fm
        y:sum():backward()
        local rows, _, values = lookups.grad_rows(w)
        return lookups.bytes(y) .. table.concat(rows, ",") .. lookups.bytes(values)
      end)
    end
  end)

  it("finds the same rows whether features are sorted apart or together", function()
    local p = problem(6, { 50, 700, 3, 9 }, 500, 23)
    local ids, w, offsets, sizes = tensors(p, "float64")
    local global = lt.add(ids, offsets)
    local g = lt.tensor(p.gx, "float64")
    local x = lt.field_embedding(ids, w, offsets, sizes, true)
    x:backward { grad = g }
    local rows, _, values = lookups.grad_rows(w)
    local narrow = w:detach():slice(2, 1, 6):clone():requires_grad_()
    lt.embedding(global, narrow):backward { grad = g:reshape(500, 4, 6) }
    local other_rows, _, other = lookups.grad_rows(narrow)
    assert.same(rows, other_rows)
    assert.equal(lookups.bytes(other), lookups.bytes(values:slice(2, 1, 6)))
  end)

  it("names feature and row of a wrong id, and what does not fit", function()
    local w = lt.zeros { 10, 3 }
    local offsets, sizes = ids_of { 0, 4 }, ids_of { 4, 6 }
    local function call(ids, more) return lt.field_embedding(ids_of(ids), w, more and more.offsets or offsets,
      more and more.sizes or sizes) end
    fails("field_embedding: feature 2, row 3: id 6; legal ids are 0 to 5", call, { { 0, 0 }, { 3, 5 }, { 1, 6 } })
    fails("field_embedding: feature 1, row 1: id -1; legal ids are 0 to 3", call, { { -1, 0 } })
    fails("field_embedding: feature 1, row 1: id 0; the feature has no rows", call, { { 0, 0 } },
      { sizes = ids_of { 0, 6 } })
    fails("field_embedding: the ids are [2]; they must be [batch, features]", call, { 0, 0 })
    fails("field_embedding: offsets are [3] int64 and the ids [1, 2]; they must be int64, one number a feature",
      call, { { 0, 0 } },
      { offsets = ids_of { 0, 1, 2 } })
    fails("field_embedding: sizes are [2] int32 and the ids [1, 2]; they must be int64, one number a feature", call,
      { { 0, 0 } },
      { sizes = ids_of({ 4, 6 }, "int32") })
    fails("field_embedding: feature 2 has 7 rows from row 4 on; the table has 10", call, { { 0, 0 } },
      { sizes = ids_of { 4, 7 } })
    fails("field_embedding: the table is int32; it must be float32 or float64", lt.field_embedding, ids_of { { 0,
      0 } }, lt.zeros({ 10, 3 }, "int32"),
      offsets, sizes)
    fails("field_embedding: the table is [10]; it must be [rows, dim], and one column more with linear = true",
      lt.field_embedding,
      ids_of { { 0, 0 } }, lt.zeros { 10 }, offsets, sizes)
    local leaf = lt.zeros({ 10, 3 }):requires_grad_()
    local overlapping = lt.field_embedding(ids_of { { 0, 0 } }, leaf, ids_of { 0, 2 }, ids_of { 4, 4 },
      { padding = 0 }):sum()
    fails("lookup: features 1 and 2 share some rows but not their padding row; let them share all rows or none",
      overlapping.backward, overlapping)
  end)
end)
