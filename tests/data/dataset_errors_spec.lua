-- Data sets: what is wrong with a stage or an option, by exact text, and what they print.
local lt = require "ltrain"
local spec = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "places.lua")
local message, rows_of = spec.message, spec.rows_of

describe("dataset", function()
  it("says what is wrong with a stage", function()
    local d = rows_of(10)
    local function wrong(fn) return message(function() fn(d) end) end
    assert.equal("iter: the data set has no batches; call :batch(n) first", wrong(function() d:iter() end))
    assert.equal("dataset: it is no iterator; write: for batch in data:iter() do", wrong(function() for _ in d do assert(false) end end))
    assert.equal("dataset: there is no method 'shufle', did you mean 'shuffle'?", wrong(function() d:shufle() end))
    assert.equal("batch: the size is 0; it must be a whole number of at least 1", wrong(function() d:batch(0) end))
    assert.equal("batch: the size is inf; it must be a whole number of at least 1", wrong(function() d:batch(math.huge) end))
    assert.equal("batch: unknown option 'droplast', did you mean 'drop_last'?; it knows drop_last",
      wrong(function() d:batch(3, { droplast = true }) end))
    assert.equal("batch: the data set has batches already", wrong(function() d:batch(3):batch(4) end))
    assert.equal("shuffle: call it before batch; whole batches are not shuffled",
      wrong(function() d:batch(3):shuffle() end))
    assert.equal("shuffle: the buffer is -1; it must be a whole number of at least 1",
      wrong(function() d:shuffle(-1) end))
    assert.equal("filter: it chooses rows; call it before batch",
      wrong(function() d:batch(3):filter { every = 2, is = 0 } end))
    assert.equal("filter: it chooses rows; call it before shuffle",
      wrong(function() d:shuffle():filter { every = 2, is = 0 } end))
    assert.equal("filter: a rule { every = 2 } needs either is or is_not", wrong(function() d:filter { every = 2 } end))
    assert.equal("filter: 2 is no remainder of a division by 2; they are 0 to 1",
      wrong(function() d:filter { every = 2, is = 2 } end))
    assert.equal("filter: rows are chosen by a function(i, row) or a rule like { every = 10, is = 9 }, got a string",
      wrong(function() d:filter "x" end))
    assert.equal("select_rows: entry 2 is 10; rows are 0 to 9", wrong(function() d:select_rows { 0, 10 } end))
    assert.equal("split: the fractions add up to 1.1; they may reach 1",
      wrong(function() d:split { a = 0.5, b = 0.6 } end))
    assert.equal("split: give fractions for all parts, or rules for all",
      wrong(function() d:split { a = 0.5, b = { every = 2, is = 1 } } end))
    assert.equal("map: its function takes batches; call it after batch", wrong(function() d:map(print) end))
    assert.equal("repeat_: without a count it goes on for ever; call it after batch", wrong(function() d:repeat_() end))
    assert.equal("take: call it before repeat_", wrong(function() d:batch(2):repeat_(2):take(1) end))
    assert.equal("shard: rank 2 of 2; ranks count from 0", wrong(function() d:shard(2, 2) end))
    assert.equal("prefetch: the depth is 0; it must be a whole number of at least 1",
      wrong(function() d:prefetch(0) end))
    assert.equal("batch: the frame has no ids and numbers yet; encode it by a schema first, dataset:encode(schema)",
      wrong(function() lt.data.frame({ a = { 1 } }):batch(1) end))
    assert.equal("encode: the frame is encoded already; do this to the table, before the schema",
      wrong(function() d:encode(lt.data.schema { categorical = { "a" }, verbose = false }) end))
    assert.equal("from_tensors: a has 2 rows and b has 3; all need the same number",
      wrong(function() lt.data.from_tensors { a = lt.zeros { 2 }, b = lt.zeros { 3 } } end))
    assert.equal("from_tensors: a is a number; it must be a tensor",
      wrong(function() lt.data.from_tensors { a = 1 } end))
    assert.equal("frame: column a has 2 values and b has 1; all need the same number",
      wrong(function() lt.data.frame { a = { 1, 2 }, b = { 1 } } end))
    assert.equal("data: there is no lt.data.cvs, did you mean lt.data.csv?; it has Dataset, csv, frame, "
      .. "from_tensors, idx, schema, synthetic_clicks",
      wrong(function() return lt.data.cvs end))
  end)

  it("prints what it does", function()
    assert.equal("10 rows of the frame -> shuffle -> batch 4 -> take 2 -> map -> prefetch 4 -> repeat 2",
      tostring(rows_of(10):shuffle():batch(4):take(2):map(print):prefetch():repeat_(2)))
    assert.equal("1 rows of the frame (texts)", tostring(lt.data.frame { a = { 1 } }))
    for batch in rows_of(10):batch(4):take(1):iter() do
      assert.equal("batch of 4 rows\n  label [4] float32\n  numeric [4, 1] float32\n  categorical [4, 2] int32",
        tostring(batch))
    end
  end)
end)
