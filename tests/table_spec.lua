-- Tables and arenas (core/table.c): where rows and moments lie, that adopting keeps values, that gradients land in the
-- arena, and that a steady step allocates nothing from the system.
local ffi = require "ffi"
local lt = require "ltrain"
local bridge = require "ltrain.ffi"
local fails = require "tests.ops.fails"
local lookups = require "tests.ops.lookups"
local C, check = bridge.C, bridge.check

local function adopt(weight, n)
  local raw, states = ffi.new("lt_handle[?]", n + 1), {}
  check(C.lt_table_adopt(weight, n, raw))
  for k = 1, n do
    states[k] = bridge.handle()
    ffi.copy(states[k], raw + (k - 1), 16)
  end
  return states
end

local function new_table(dtype, rows, width)
  local out = bridge.handle()
  check(C.lt_table_new(bridge.dtypes[dtype], rows, width, out))
  return out
end

local function address(t) return tonumber(ffi.cast("intptr_t", t:data())) end

describe("table", function()
  it("starts with zeros, its rows in as few cache lines as possible", function()
    for _, case in ipairs {
      { "float32", 1, 1 }, { "float32", 3, 4 }, { "float32", 10, 16 }, { "float32", 11, 16 }, { "float32", 16, 16 },
      { "float32", 17, 32 }, { "float64", 3, 4 }, { "float64", 10, 16 },
    } do
      local t = new_table(case[1], 5, case[2])
      assert.same({ case[3], 1 }, t:stride())
      assert.same({ 5, case[2] }, t.shape)
      assert.equal(0, address(t) % 64)
      assert.equal(0, t:abs():sum():item())
    end
    assert.same({ 0, 3 }, new_table("float32", 0, 3).shape)
  end)

  it("keeps its values when moments move in beside them", function()
    -- width, states: elements from row to row, elements from the weights to the first moment
    for _, case in ipairs { { 11, 2, 48, 16 }, { 10, 2, 32, 10 }, { 1, 2, 4, 1 }, { 17, 2, 64, 17 }, { 8, 1, 16, 8 },
      { 16, 3, 64, 16 } } do
      local width, n = case[1], case[2]
      local values = lookups.matrix(lookups.numbers(width), 300, width)
      local weight = lookups.table(values, "float32")
      local before = weight:totable()
      local states = adopt(weight, n)
      assert.same(before, weight:totable())
      assert.same({ case[3], 1 }, weight:stride())
      assert.equal(n, #states)
      for k, s in ipairs(states) do
        assert.same({ case[3], 1 }, s:stride())
        assert.equal(address(weight) + 4 * case[4] * k, address(s))
        assert.equal(0, s:abs():sum():item())
        s:fill_(k)
      end
      assert.same(before, weight:totable())
      -- once more, for another optimizer
      adopt(weight, 1)
      assert.same(before, weight:totable())
      assert.equal(300 * width, states[1]:sum():item())
    end
  end)

  it("can still be looked up, trained and copied like any tensor", function()
    local values = lookups.matrix(lookups.numbers(4), 6, 3)
    local weight = lookups.table(values, "float64"):requires_grad_()
    adopt(weight, 2)
    local y = lt.embedding(lt.tensor({ 5, 2 }, "int64"), weight)
    assert.same({ values[6], values[3] }, y:totable())
    y:sum():backward()
    assert.same({ 2, 5 }, (lookups.grad_rows(weight)))
    assert.same(values, weight:detach():clone():totable())
  end)

  it("says what it cannot be", function()
    fails("table: a table of int64; tables are float32 or float64", new_table, "int64", 3, 2)
    fails("table: a table of 3 rows of 0 values; rows are 0 to 4294967295, values a row 1 to 16777216", new_table,
      "float32", 3, 0)
    fails("table: a table of -1 rows of 2 values; rows are 0 to 4294967295, values a row 1 to 16777216", new_table,
      "float32", -1, 2)
    fails("table: the weight is [3]; a table is [rows, width]", adopt, lt.zeros { 3 }, 1)
    fails("table: 9 values of state a weight; 0 to 8 are possible", adopt, lt.zeros { 3, 2 }, 9)
  end)
end)

describe("gradient arena", function()
  local function arena_of(params)
    local array, out = ffi.new("const lt_handle *[?]", #params), bridge.handle()
    for i, p in ipairs(params) do array[i - 1] = p end
    check(C.lt_grad_arena(array, #params, out))
    return out
  end

  it("holds every gradient at a cache line's start, and zeros between them", function()
    local a = lt.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, { requires_grad = true })
    local b = lt.tensor({ 1, 1, 1 }, { requires_grad = true })
    local arena = arena_of { a, b }
    assert.same({ 32 }, arena.shape)
    for round = 1, 2 do
      a:set_grad(nil)
      b:set_grad(nil)
      local y = (a * b):sum() * round
      y:backward()
      assert.equal(address(arena), address(a.grad))
      assert.equal(address(arena) + 64, address(b.grad))
      assert.same({ { round, round, round }, { round, round, round } }, a.grad:totable())
      assert.same({ 5 * round, 7 * round, 9 * round }, b.grad:totable())
      assert.equal(6 * round + 21 * round, arena:sum():item())
    end
    -- gradients add up where they are
    (a * b):sum():backward()
    assert.equal(address(arena), address(a.grad))
    assert.same({ { 3, 3, 3 }, { 3, 3, 3 } }, a.grad:totable())
  end)

  it("takes one dtype", function()
    fails("arena: parameter 2 is float64 on cpu and parameter 1 is float32 on cpu; " ..
      "an arena has one dtype and device", arena_of,
      { lt.zeros { 2 }, lt.zeros({ 2 }, "float64") })
    fails("arena: no parameters given", arena_of, {})
  end)

  it("makes a steady step of a click model free of system allocations", function()
    local fields, batch, dim = 6, 64, 4
    local number = lookups.numbers(2)
    local weight = lookups.table(lookups.matrix(number, fields * 50, dim + 1), "float32"):keep():requires_grad_()
    local states = adopt(weight, 2)
    for _, s in ipairs(states) do s:keep() end
    local dense = { lt.tensor(lookups.matrix(number, 1, fields * dim)):reshape(fields * dim,
      1):keep():requires_grad_() }
    local arena = arena_of(dense):keep()
    local moments = { lt.zeros({ fields * dim, 1 }):keep(), lt.zeros({ fields * dim, 1 }):keep() }
    local offsets, sizes = {}, {}
    for f = 1, fields do offsets[f], sizes[f] = (f - 1) * 50, 50 end
    offsets, sizes = lt.tensor(offsets, "int64"):keep(), lt.tensor(sizes, "int64"):keep()
    local o = ffi.new "lt_step_options"
    C.lt_step_defaults(C.LT_STEP_ADAM, o)
    local rows, values, grad = bridge.handle(), bridge.handle(), bridge.handle()
    local param_list, state_list = ffi.new("const lt_handle *[1]", { dense[1] }), ffi.new("const lt_handle *[2]",
      { moments[1], moments[2] })
    local table_states = ffi.new("const lt_handle *[2]", { states[1], states[2] })
    local labels = {}
    for s = 1, batch do labels[s] = number() < 0.5 and 1 or 0 end
    labels = lt.tensor(labels):keep()
    local batches = {}
    for b = 1, 4 do
      local ids = {}
      for s = 1, batch do
        ids[s] = {}
        for f = 1, fields do ids[s][f] = math.floor(number() * number() * 50) end
      end
      batches[b] = lt.tensor(ids, "int32"):keep()
    end
    local function step(t)
      lt.scope(function()
        local x, linear, fm = lt.field_embedding(batches[t % 4 + 1], weight, offsets, sizes, true, true)
        local deep = (x:reshape(batch, fields * dim, 1) * dense[1]):sum({ 2, 3 })
        local loss = ((linear + fm + deep) - labels):square():sum()
        loss:backward()
        o.step = t
        check(C.lt_grad_rows(weight, rows, values))
        check(C.lt_step_lazy(o, weight, table_states, rows, values))
        C.lt_release(rows)
        C.lt_release(values)
        check(C.lt_grad(dense[1], grad))
        check(C.lt_step(o, param_list, ffi.new("const lt_handle *[1]", { grad }), state_list, nil, 1))
        C.lt_release(grad)
        weight:set_grad(nil)
        dense[1]:set_grad(nil)
      end)
    end
    for t = 1, 20 do step(t) end
    local before = lt.memory().system_allocations
    for t = 21, 60 do step(t) end
    assert.equal(before, lt.memory().system_allocations)
    assert.is_true(arena:abs():sum():item() > 0)
  end)
end)
