-- Data sets: stages, order, resuming at every position, early leaving, batches and their columns, bad rows.
local ffi = require "ffi"
local lt = require "ltrain"
local spec = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "places.lua")
local message, loop, list = spec.message, spec.loop, spec.list

local rows_of, tensors_of = spec.rows_of, spec.tensors_of

local function joined(batches) return table.concat(batches, " ") end
local function sorted(batches)
  local numbers = {}
  for word in joined(batches):gmatch "%d+" do numbers[#numbers + 1] = tonumber(word) end
  table.sort(numbers)
  return numbers
end

describe("dataset", function()
  it("makes batches of ids, numbers and labels, with columns by name", function()
    local seen = 0
    for batch in rows_of(10):batch(4):iter() do
      local n, first = batch.size, batch.first
      assert.same({ { n }, { n, 2 }, { n, 1 } }, { batch.label.shape, batch.categorical.shape, batch.numeric.shape })
      assert.same({ "float32", "int32", "float32", "int64" },
        { batch.label.dtype, batch.categorical.dtype, batch.numeric.dtype, batch.rows.dtype })
      assert.same(list(n, function(i) return first + i - 1 end), batch.id:totable())
      assert.same(list(n, function(i) return (first + i) / 4 end), batch.x:totable())
      assert.same(list(n, function(i) return (first + i) % 2 end), batch.label:totable())
      assert.same(batch.kind:totable(), batch:column("kind"):totable())
      assert.equal(n, batch.global_size)
      assert.is_true(batch.id:shares_storage(batch.categorical))
      assert.is_nil(batch.weight)
      assert.equal('batch: there is no column "kin"; did you mean "kind"?', message(function() batch:column "kin" end))
      seen = seen + n
    end
    assert.equal(10, seen)
  end)

  for name, make in pairs { frame = rows_of, tensors = tensors_of } do
    describe("of " .. name, function()
      it("has an order of each epoch that prefetch, threads and batches do not change", function()
        local base = make(100):shuffle(true, { seed = 5 })
        local function order(dataset, epochs)
          local text = {}
          for e = 1, epochs or 2 do text[e] = joined(loop(dataset)) end
          return text
        end
        local plain = order(base:batch(7))
        assert.not_equal(plain[1], plain[2])
        assert.same(list(100, function(i) return i - 1 end), sorted { plain[1] })
        for _, depth in ipairs { 1, 2, 9 } do
          for _, threads in ipairs { 1, 3 } do assert.same(plain,
            order(base:batch(7):prefetch(depth, { threads = threads }))) end
        end
        assert.same(plain, order(base:batch(30)))
        assert.same(plain, order(base:batch(7))) -- another data set begins at epoch 1
        assert.not_equal(plain[1], order(make(100):shuffle { seed = 6 }:batch(7))[1])
        local again = base:batch(7)
        again:set_epoch(2)
        assert.equal(plain[2], joined(loop(again)))
      end)

      it("takes the generator's seed when it has none", function()
        local function order(seed)
          lt.manual_seed(seed)
          return joined(loop(make(50):shuffle():batch(8)))
        end
        assert.equal(order(1), order(1))
        assert.not_equal(order(1), order(2))
        assert.equal(order(3), joined(loop(make(50):shuffle { seed = 3 }:batch(8))))
      end)

      it("resumes at every position, twice", function()
        for _, options in ipairs { { size = 7 }, { size = 8, drop = true }, { size = 60 }, { size = 9, depth = 3 },
          { size = 7, window = true }, { size = 7, batches = true }, { size = 13, copies = 3 } } do
          local function build()
            local d = make(50):shuffle(true, { seed = 9 })
            if options.window then d = d:skip(4):take(37) end
            d = d:batch(options.size, { drop_last = options.drop })
            if options.batches then d = d:skip(1):take(4) end
            if options.depth then d = d:prefetch(options.depth) end
            if options.copies then d = d:repeat_(options.copies) end
            return d
          end
          local whole = build()
          local epochs = { loop(whole), loop(whole) }
          for cut = 0, #epochs[1] do
            for second = cut, #epochs[1] do
              local one = build()
              local head = cut > 0 and loop(one, cut) or {}
              local state = one:state()
              local two = build():restore(state)
              two:set_epoch(1) -- as a trainer does that goes on with the epoch it was in
              local middle = second > cut and loop(two, second - cut) or {}
              local three = build():restore(two:state())
              local tail = loop(three)
              local all = {}
              for _, part in ipairs { head, middle, tail } do
                for _, batch in ipairs(part) do all[#all + 1] = batch end
              end
              assert.same(epochs[1], all)
              assert.same(epochs[2], loop(three)) -- the epoch after it
            end
          end
        end
      end)

      it("has a state of four integers, and begins the next epoch at an epoch's end", function()
        local d = make(10):shuffle { seed = 4 }:batch(4):prefetch(3)
        assert.same({ seed = 4, epoch = 1, position = 0, rows = 10 }, d:state())
        local states = {}
        for _ in d:iter() do states[#states + 1] = d:state().position end
        assert.same({ 4, 8, 10 }, states)
        assert.same({ seed = 4, epoch = 2, position = 0, rows = 10 }, d:state())
        assert.equal("restore: the state is of a data set with 10 rows at position 4; this one has 11 rows",
          message(function() make(11):batch(4):restore { seed = 4, epoch = 1, position = 4, rows = 10 } end))
        assert.equal("restore: epoch is nil; it must be a whole number of at least 1",
          message(function() d:restore { seed = 4, position = 4, rows = 10 } end))
        assert.equal("restore: unknown option 'epok', did you mean 'epoch'?; it knows seed, epoch, position, rows",
          message(function() d:restore { epok = 4 } end))
      end)

      it("counts what it will deliver", function()
        for _, case in ipairs { { 10, 4, batches = 3 }, { 10, 5, batches = 2 }, { 10, 4, drop = true, batches = 2 },
          { 0, 4, batches = 0 },
          { 10, 3, skip = 1, take = 2, batches = 2 }, { 10, 3, skip = 3, batches = 1 },
            { 10, 3, skip = 9, batches = 0 },
          { 10, 3, drop = true, skip = 1, take = 5, batches = 2 }, { 10, 4, copies = 2, batches = 6 } } do
          local d = make(case[1]):batch(case[2], { drop_last = case.drop })
          if case.skip then d = d:skip(case.skip) end
          if case.take then d = d:take(case.take) end
          if case.copies then d = d:repeat_(case.copies) end
          local batches = loop(d)
          assert.equal(case.batches, #batches)
          assert.equal(case.batches, d:len())
          assert.equal(case.batches, d:steps())
          assert.equal(#sorted(batches), d:rows())
        end
        assert.equal(math.huge, make(10):batch(4):repeat_():len())
        assert.equal(10, make(10):len())
      end)

      it("takes and skips rows before batch, batches after it", function()
        assert.same({ "2 3", "4" }, loop(make(9):skip(2):take(3):batch(2)))
        assert.same({ "4 5", "6 7" }, loop(make(9):batch(2):skip(2):take(2)))
        assert.same({ "2 3" }, loop(make(9):batch(2):take(2):skip(1)))
        assert.same({}, loop(make(9):batch(2):take(0)))
        assert.same({}, loop(make(9):take(0):batch(2)))
        local shuffled = make(9):shuffle { seed = 1 }
        local order = joined(loop(shuffled:batch(9)))
        local words = {}
        for word in order:gmatch "%d+" do words[#words + 1] = word end
        assert.equal(table.concat({ unpack(words, 3, 6) }, " "), joined(loop(shuffled:skip(2):take(4):batch(3))))
      end)

      it("repeats rows before batch and passes after it", function()
        assert.same(sorted { "0 0 1 1 2 2" }, sorted(loop(make(3):repeat_(2):batch(4))))
        assert.same({ "0 1", "2", "0 1", "2" }, loop(make(3):batch(2):repeat_(2)))
        local d = make(20):shuffle { seed = 2 }:batch(20):repeat_(2)
        local passes = loop(d)
        local plain = make(20):shuffle { seed = 2 }:batch(20)
        assert.same({ loop(plain)[1], loop(plain)[1] }, passes)
        assert.same({ loop(plain)[1], loop(plain)[1] }, loop(d))
        local endless = loop(make(3):batch(2):repeat_(), 5)
        assert.same({ "0 1", "2", "0 1", "2", "0 1" }, endless)
        assert.same({}, loop(make(0):batch(2):repeat_()))
      end)

      it("chooses and splits rows", function()
        assert.same({ "5 0", "5" }, loop(make(9):select_rows({ 5, 0, 5 }):batch(2)))
        assert.same({ "1 5" }, loop(make(9):filter { every = 4, is = 1 }:batch(9)))
        assert.same({ "0 3 4 7 8" }, loop(make(9):filter { every = 4, is_not = { 1, 2 } }:batch(9)))
        assert.same({ "1 7" }, loop(make(9):filter(function(i) return i % 2 == 1 end):filter { every = 3,
          is = 0 }:batch(9)))
        local parts = make(100):split({ a = 0.5, b = 0.25, c = 0.25 }, { seed = 3 })
        local a, b, c = loop(parts.a:batch(100))[1], loop(parts.b:batch(100))[1], loop(parts.c:batch(100))[1]
        assert.same({ 50, 25, 25 }, { parts.a:rows(), parts.b:rows(), parts.c:rows() })
        assert.same(list(100, function(i) return i - 1 end), sorted { a, b, c })
        assert.equal(a, loop(make(100):split({ a = 0.5, b = 0.25, c = 0.25 }, { seed = 3 }).a:batch(100))[1])
        assert.not_equal(a, loop(make(100):split({ a = 0.5, b = 0.5 }, { seed = 4 }).a:batch(100))[1])
        assert.same({ "4", "2" },
          { joined(loop(make(6):split({ x = { every = 6, is = 4 }, y = function(i) return i == 2 end }).x:batch(3))),
          joined(loop(make(6):split({ x = { every = 6, is = 4 }, y = function(i) return i == 2 end }).y:batch(3))) })
      end)

      it("puts parts together again", function()
        local all = make(10)
        local parts = all:split { train = { every = 5, is_not = 4 }, valid = { every = 5, is = 4 } }
        assert.same({ "0 1 2 3 5 6 7 8 4 9" }, loop(parts.train:concat(parts.valid):batch(10)))
      end)

      it("gives each rank its part of every batch", function()
        local whole = loop(make(23):shuffle { seed = 1 }:batch(5))
        for ranks = 1, 4 do
          local parts = list(ranks, function(r)
            return loop(make(23):shuffle { seed = 1 }:batch(5):shard(r - 1, ranks))
          end)
          for k, batch in ipairs(whole) do
            local pieces = {}
            for r = 1, ranks do
              if parts[r][k] ~= "" then pieces[#pieces + 1] = parts[r][k] end
            end
            assert.equal(batch, joined(pieces))
          end
        end
      end)

      it("keeps its memory flat when loops are left early", function()
        local d = make(200):shuffle():batch(16):prefetch(2)
        local function leave(n)
          for _ = 1, n do
            for batch in d:iter() do
              if batch.size == 16 then break end
            end
          end
          collectgarbage()
          return lt.memory()
        end
        leave(50)
        local before = leave(50)
        local after = leave(300)
        assert.is_true(after.tensors <= before.tensors + 60, before.tensors .. " tensors became " .. after.tensors)
        assert.is_true(after.live <= before.live + 65536, before.live .. " bytes became " .. after.live)
        assert.is_true(ffi.C.lt_scope_depth() < 20)
      end)
    end)
  end

  it("ends a step's tensors with the step, and keeps what is kept", function()
    local old, kept
    for batch in rows_of(10):batch(5):iter() do
      if old then
        assert.has_error(function() old:sum() end)
        assert.same({ 1, 0, 1, 0, 1 }, kept:totable())
      end
      old, kept = batch.label, batch.label:clone():keep()
    end
    assert.has_error(function() old:sum() end)
  end)

  it("allocates nothing from the system in a steady loop", function()
    local d = rows_of(2000):shuffle():batch(50):prefetch()
    loop(d)
    local before = lt.memory().system_allocations
    for _ = 1, 3 do
      for batch in d:iter() do assert(batch.size == 50) end
    end
    assert.equal(before, lt.memory().system_allocations)
  end)

  it("runs functions on batches, in order", function()
    local d = tensors_of(5):batch(2):map(function(batch)
      batch.x = batch.x * 2
      return batch
    end):map(function(batch) return { size = batch.size, first = batch.x[1]:totable() } end)
    local seen = {}
    for batch in d:iter() do seen[#seen + 1] = batch.first end
    assert.same({ { 2, -2 }, { 6, -6 }, { 10, -10 } }, seen)
    local wrong = tensors_of(5):batch(2):map(function() end)
    assert.equal("map: the function returned nothing; it must return the batch",
      message(function() for _ in wrong:iter() do end end))
  end)

  it("gives views of tensors where rows follow one another", function()
    local x = lt.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } }
    for batch in lt.data.from_tensors({ x = x }):batch(2):iter() do
      if batch.first == 0 then assert.is_true(batch.x:shares_storage(x)) end
    end
  end)

  it("makes synthetic clicks that are the same in any cut", function()
    local function some(options)
      local d = lt.data.synthetic_clicks(options)
      return d, d:column "label", d:column "C20"
    end
    local d, labels, ids = some { rows = 300, values = 5000, seed = 3 }
    local _, tail, tail_ids = some { rows = 100, first_row = 200, values = 5000, seed = 3 }
    assert.same({ unpack(labels, 201) }, tail)
    assert.same({ unpack(ids, 201) }, tail_ids)
    local features, values = d:features(), 0
    for _, feature in ipairs(features) do values = values + feature.size end
    assert.same({ 39, 5000, 100, "C1" }, { #features, values, features[13].size, features[1].name })
    for batch in d:batch(100):iter() do assert.same({ 100, 39 }, batch.categorical.shape) end
    assert.same(2, lt.data.synthetic_clicks({ rows = 1, reserved = 2 }):features()[1].reserved)
    assert.equal("synthetic_clicks: unknown option 'row', did you mean 'rows'?; it knows rows, first_row, fields, "
      .. "values, seed, reserved, small_fields, small_values",
      message(function() lt.data.synthetic_clicks { row = 3 } end))
  end)

  it("raises for bad rows at their place in the loop", function()
    local schema = lt.data.schema { numeric = { { "x", transform = "log1p" } }, categorical = { "c" }, verbose = false }
    local d = lt.data.frame { x = list(20, function(i) return i == 14 and 3e38 or i end),
      c = list(20, tostring) }:encode(schema)
    local p, step = require("ltrain.data.frame").strided(d.about.frame, 0)
    p[13 * step] = 0 / 0
    require("ltrain.ffi").collect() -- scopes of loops that other tests left
    local depth = ffi.C.lt_scope_depth()
    for _, batched in ipairs { d:batch(5), d:batch(5):prefetch(4) } do
      local seen = 0
      assert.equal('batch: column "x" is nan in row 13; give missing values a fill, or bucket them', message(function()
        for batch in batched:iter() do seen = seen + batch.size end
      end))
      assert.equal(10, seen)
      assert.equal(10, batched:state().position)
      assert.equal(depth, ffi.C.lt_scope_depth())
    end
  end)
end)
