-- Schemas: what is learnt and from which rows, ids and numbers against hand-made ones, saving, refusals by exact text.
local lt = require "ltrain"
local json = require "ltrain.json"
local spec = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "places.lua")
local message = spec.message

local function schema(declaration)
  declaration.verbose = false
  return lt.data.schema(declaration)
end

-- Columns of the encoded rows: categorical and numeric by name.
local function encode(declaration, columns, options)
  local s = schema(declaration)
  local dataset = lt.data.frame(columns, options):encode(s)
  return function(name) return dataset:column(name) end, s, dataset
end

describe("schema", function()
  it("gives ids by falling count, ties by bytes, from 2 on", function()
    local column, s = encode({ categorical = { "user" } }, { user = { "b", "a", "c", "c", "b", "c" } })
    assert.same({ 3, 4, 2, 2, 3, 2 }, column "user")
    local features = s:features()
    assert.same({ name = "user", kind = "categorical", size = 5, reserved = 2 }, features[1])
    assert.equal(s, features.schema)
    assert.same({ "c", 3 }, { s:value("user", 2) })
    assert.is_nil(s:value("user", 1))
  end)

  it("learns from training rows alone: later values that are new get id 1", function()
    local s = schema { label = "y", numeric = { { "x", transform = "standard" }, { "q", buckets = 2 } },
      categorical = { "user" } }
    local all = lt.data.frame { user = { "a", "b", "zz", "a" }, x = { 1, 3, 100, 2 }, q = { 1, 2, 50, 1 },
      y = { 0, 1, 0, 1 } }
    local parts = all:split { train = { every = 4, is = { 0, 1 } }, test = { every = 4, is = { 2, 3 } } }
    local train, test = parts.train:encode(s), parts.test:encode(s)
    assert.same({ 2, 3 }, train:column "user")
    assert.same({ 1, 2 }, test:column "user")
    assert.same({ -1, 1 }, train:column "x")
    assert.same({ 98, 0 }, test:column "x")
    assert.same({ 2, 3 }, train:column "q")
    assert.same({ 3, 2 }, test:column "q")
    assert.same({ { name = "user", seen = 2, unknown = 1 } }, test:stats().unknown)
    assert.same({ { name = "user", seen = 2, unknown = 0 } }, train:stats().unknown)
  end)

  it("keeps a value for missing texts, and leaves rare values out", function()
    local column, s = encode({ categorical = { { "g", min_count = 2 } } }, { g = { "x", "", "x", "", "y" } })
    assert.same({ 3, 2, 3, 2, 1 }, column "g")
    assert.equal(4, s:features()[1].size)
  end)

  it("hashes, and takes whole numbers as they are", function()
    local column, s = encode({ categorical = { { "h", hash = 50 }, { "id", size = 7 } } },
      { h = { "a", "b", "a" }, id = { 6, 0, 3 } })
    local h = column "h"
    assert.equal(h[1], h[3])
    for _, id in ipairs(h) do assert.is_true(id >= 2 and id < 52) end
    assert.same({ 6, 0, 3 }, column "id")
    local f = s:features()
    assert.same({ 52, 2, 7, 0 }, { f[1].size, f[1].reserved, f[2].size, f[2].reserved })
  end)

  it("cuts numbers into buckets: quantiles, edges, log2", function()
    local values = spec.list(100, function(i) return i end)
    local column, s = encode({ numeric = { { "q", from = "x", buckets = 4 },
      { "e", from = "x", edges = { 10.5, 50.5 } } } }, { x = values })
    local q, e = column "q", column "e"
    assert.same({ 2, 2, 3, 3, 4, 5, 5 }, { q[1], q[25], q[26], q[50], q[51], q[76], q[100] })
    assert.same({ 2, 3, 3, 4 }, { e[10], e[11], e[50], e[51] })
    assert.same({ 6, 5 }, { s:features()[1].size, s:features()[2].size })
    column, s = encode({ numeric = { { "v", buckets = "log2" } } }, { v = { -2, 0, 1, 2, 3, 20, 21, 1000, "" } })
    local texts = {}
    for i, id in ipairs(column "v") do texts[i] = s:value("v", id) end
    -- ln(3)^2 = 1.2, ln(20)^2 = 8.97, ln(21)^2 = 9.27, ln(1000)^2 = 47.7
    assert.same({ "-2", "0", "1", "2", "1", "8", "9", "47", "" }, texts)
  end)

  it("scales numbers: log1p with the sign, standard, minmax, one after the other", function()
    local column = encode({ numeric = { { "l", from = "x", transform = "log1p" },
      { "s", from = "x", transform = "standard" },
      { "m", from = "x", transform = "minmax" }, { "both", from = "x", transform = { "log1p", "minmax" } },
        { "plain", from = "x" } } },
      { x = { -3, 0, 1, 6 } })
    assert.close(column "l", { -math.log(4), 0, math.log(2), math.log(7) }, 1e-6)
    local deviation = math.sqrt((16 + 1 + 0 + 25) / 4) -- around the mean 1
    assert.close(column "s", { -4 / deviation, -1 / deviation, 0, 5 / deviation }, 1e-6)
    assert.close(column "m", { 0, 3 / 9, 4 / 9, 1 }, 1e-6)
    local span = math.log(7) + math.log(4)
    assert.close(column "both", { 0, math.log(4) / span, (math.log(4) + math.log(2)) / span, 1 }, 1e-6)
    assert.same({ -3, 0, 1, 6 }, column "plain")
  end)

  it("does not divide by a spread of zero", function()
    local column = encode({ numeric = { { "s", from = "x", transform = "standard" },
      { "m", from = "x", transform = "minmax" } } }, { x = { 5, 5 } })
    assert.same({ 0, 0 }, column "s")
    assert.same({ 0, 0 }, column "m")
  end)

  it("fills missing numbers with a number or the training mean", function()
    local column, s = encode({ numeric = { { "zero", from = "x", missing = 0 },
      { "mean", from = "x", missing = "mean" } } }, { x = { 1, "", 5 } })
    assert.same({ 1, 0, 5 }, column "zero")
    assert.same({ 1, 3, 5 }, column "mean")
    assert.same({ 7, 3 }, lt.data.frame({ x = { 7, "" } }):encode(s):column "mean")
  end)

  it("makes labels by threshold, by value, by function", function()
    local function label(declaration, values)
      local s = schema { label = declaration, categorical = { "c" } }
      local dataset = lt.data.frame({ y = values, c = spec.list(#values, tostring) }):encode(s)
      return spec.field(dataset:batch(#values), "label")[1]
    end
    assert.same({ 0, 1, 1 }, label({ "y", at_least = 4 }, { 3, 4, 5 }))
    assert.same({ 0, 0, 1 }, label({ column = "y", above = 4 }, { 3, 4, 5 }))
    assert.same({ 0, 1, 1 }, label({ "y", is = ">50K", strip = "." }, { "<=50K", ">50K.", ">50K" }))
    assert.same({ 1, 0, 1 }, label({ "y", is = { "a", "b" }, is_not = "c" }, { "a", "c", "b" }))
    assert.same({ 1, 0 }, label({ "y", transform = function(text) return text == "yes" end }, { "yes", "no" }))
    assert.same({ 0.25, 1 }, label("y", { 0.25, 1 }))
  end)

  it("calls a function once for each distinct text, never for missing ones", function()
    local calls = {}
    local column, s = encode({ categorical = { { "year", from = "date", transform = function(text)
      calls[#calls + 1] = text
      return text:match "%d%d%d%d"
    end } } }, { date = { "1-1995", "2-1995", "", "1-1995", "unknown" } })
    table.sort(calls)
    assert.same({ "1-1995", "2-1995", "unknown" }, calls)
    assert.same({ 2, 2, 3, 2, 3 }, column "year")
    assert.equal("1995", s:value("year", 2))
    local decade = encode({ categorical = { { "age", transform = function(a) return math.floor(a / 5) end } } },
      { age = { 24, 23, 31, 24 } })
    assert.same({ 2, 2, 3, 2 }, decade "age")
  end)

  it("orders features by declaration: categories, buckets, numbers", function()
    local _, s, dataset = encode({ label = "y", numeric = { "n", { "b", buckets = 2 } }, categorical = { "k", "c" } },
      { y = { 1 }, n = { 2 }, b = { 3 }, k = { "k" }, c = { "c" } })
    local names = {}
    for i, feature in ipairs(s:features()) do names[i] = feature.name .. ":" .. feature.kind end
    assert.same({ "k:categorical", "c:categorical", "b:categorical", "n:numeric" }, names)
    assert.same(s:features(), dataset:features())
  end)

  it("lets the label's column be a feature as well", function()
    local column = encode({ label = { "rating", at_least = 4 }, categorical = { "rating" } }, { rating = { 5, 1 } })
    assert.same({ 3, 2 }, column "rating")
  end)

  local RICH = { label = { "y", is = "yes" }, weight = "w",
    numeric = { { "n", transform = { "log1p", "standard" }, missing = "mean" }, { "b", buckets = 3 },
      { "l", buckets = "log2" },
      { "e", edges = { 0.1, 2 } } },
    categorical = { "c", { "h", hash = 10, seed = 3 }, { "id", size = 4 },
      { "f", from = "c", transform = function(t) return t:upper() end } } }
  local ROWS = { y = { "yes", "no", "no" }, w = { 1, 2, 1 }, n = { 1, "", 9 }, b = { 1, 2, 3 }, l = { 1, 20, 300 },
    e = { 0, 1, 2 },
    c = { "\255\254", "é\t", "" }, h = { "p", "q", "r" }, id = { 0, 1, 3 } }

  it("comes back from a file with the same ids, numbers and hash", function()
    local _, s = encode(RICH, ROWS)
    local folder = spec.folder()
    local path = folder .. "/schema.json"
    s:save(path)
    local again = lt.data.schema.load(path, { verbose = false, transforms = { f = function(t) return t:upper() end } })
    assert.same(s:to_table(), again:to_table())
    assert.equal(s:hash(), again:hash())
    assert.equal(16, #s:hash())
    local one, two = lt.data.frame(ROWS):encode(s), lt.data.frame(ROWS):encode(again)
    for _, name in ipairs { "n", "b", "l", "e", "c", "h", "id", "f" } do
      assert.same(one:column(name), two:column(name))
    end
    again:save(path .. "2")
    assert.equal(spec.read(path), spec.read(path .. "2"))
    spec.remove(folder)
  end)

  it("asks for its functions when it comes from a file without them", function()
    local _, s = encode(RICH, ROWS)
    local bare = lt.data.schema.from_table(json.decode(json.encode(s:to_table())), { verbose = false })
    assert.equal('schema: "f" is made by a function of the script, which no file keeps; pass it again: '
      .. '{ transforms = { ["f"] = function(text) ... end } }',
        message(function() lt.data.frame(ROWS):encode(bare) end))
    assert.equal("schema: transforms: unknown option 'g', did you mean 'y'?; it knows y, w, n, c, h, id, f, b, l, e",
      message(function() lt.data.schema.from_table(s:to_table(), { transforms = { g = print } }) end))
  end)

  it("has a hash that changes with what was learnt", function()
    local hashes = {}
    for i, users in ipairs { { "a", "b" }, { "b", "a" }, { "a", "c" }, { "a", "b", "b" } } do
      local _, s = encode({ categorical = { "user" } }, { user = users })
      hashes[i] = s:hash()
    end
    assert.equal(hashes[1], hashes[2]) -- the same values, equally often
    assert.not_equal(hashes[1], hashes[3])
    assert.not_equal(hashes[1], hashes[4])
  end)

  it("reads damaged tables without believing them", function()
    local _, s = encode({ numeric = { { "n", transform = "minmax" } }, categorical = { "c" } },
      { n = { 1, 2 }, c = { "a", "b" } })
    local function damaged(change)
      local t = json.decode(json.encode(s:to_table()))
      change(t)
      return message(function() lt.data.schema.from_table(t) end)
    end
    assert.equal('schema: this is no saved schema; its format should be "ltrain.schema"',
      damaged(function(t) t.format = "x" end))
    assert.equal("schema: it was saved in version 7 of the format; this ltrain reads version 1",
      damaged(function(t) t.version = 7 end))
    assert.equal("schema: the saved schema is damaged: it has no fields", damaged(function(t) t.fields = {} end))
    assert.equal("schema: the saved schema is damaged: field 1 has no name, from, role or wants",
      damaged(function(t) t.fields[1].name = nil end))
    assert.equal("schema: the saved schema is damaged: name of field 1 is a number",
      damaged(function(t) t.fields[1].name = 3 end))
    local values = s:to_table().fields[2].vocabulary
    assert.equal("ltrain-vocabulary 1 map 1 0 2\tc\n1\ta\n1\tb\n", values)
    assert.equal('schema: the saved schema is damaged: "c": vocabulary load: line 3: missing; the text was cut or '
      .. "edited", damaged(function(t) t.fields[2].vocabulary = values:sub(1, -5) end))
    assert.equal('schema: the saved schema is damaged: "c": vocabulary add: "a" is in "c" twice',
      damaged(function(t) t.fields[2].vocabulary = values:gsub("\tb", "\ta") end))
    assert.equal('schema: the saved schema is damaged: the vocabulary of "c"',
      damaged(function(t) t.fields[2].vocabulary = { hex = "zz" } end))
    assert.equal('schema: the saved schema is damaged: "c" has a vocabulary of another kind',
      damaged(function(t) t.fields[2].vocabulary = "ltrain-vocabulary 1 whole 5 0 0\tc\n" end))
    assert.equal('schema: the saved schema is damaged: step 1 of "n"',
      damaged(function(t) t.fields[1].steps[1].scale = 0 end))
    assert.equal('schema: the saved schema is damaged: "c" is categorical with the encoder none',
      damaged(function(t) t.fields[2].encoder = "none" end))
    assert.equal("schema: /nowhere.json: No such file or directory",
      message(function() lt.data.schema.load "/nowhere.json" end))
  end)

  it("says what is wrong with a declaration", function()
    local function wrong(declaration) return message(function() lt.data.schema(declaration) end) end
    assert.equal("schema: unknown option 'catgorical', did you mean 'categorical'?; it knows label, weight, "
      .. "numeric, categorical, verbose",
      wrong { catgorical = { "a" } })
    assert.equal("schema: no features; name columns in numeric or categorical", wrong { label = "y" })
    assert.equal('schema: categorical column "a": unknown option \'mincount\', did you mean \'min_count\'?; it '
      .. 'knows from, transform, min_count, hash, seed, size',
      wrong { categorical = { { "a", mincount = 2 } } })
    assert.equal("schema: there is no transform 'standart' of \"a\", did you mean 'standard'?; a function comes "
      .. "first, then any of log1p, standard, minmax",
      wrong { numeric = { { "a", transform = "standart" } } })
    assert.equal('schema: two features are named "a"; give one another name: { "a_2", from = "a" }',
      wrong { numeric = { "a" }, categorical = { "a" } })
    assert.equal('schema: "a" has both buckets and edges; give one',
      wrong { numeric = { { "a", buckets = 3, edges = { 1 } } } })
    assert.equal('schema: edge 2 of "a" is 1; edges must be finite and rise',
      wrong { numeric = { { "a", edges = { 1, 1 } } } })
    assert.equal('schema: buckets of "a" is 1; it must be a whole number of at least 2',
      wrong { numeric = { { "a", buckets = 1 } } })
    assert.equal('schema: label "y" has more than one of at_least, above, is and transform',
      wrong { label = { "y", at_least = 1, is = "1" }, numeric = { "a" } })
    assert.equal('schema: "a" has more than one of min_count, hash and size; a vocabulary, hash buckets and given '
      .. 'ids exclude each other',
      wrong { categorical = { { "a", hash = 3, size = 4 } } })
    assert.equal('schema: missing of "a" is often; give a number or "mean"',
      wrong { numeric = { { "a", missing = "often" } } })
    assert.equal("schema: numeric must be a list of columns, got 'age'", wrong { numeric = "age" })
    assert.equal('schema: a numeric column is a name or { "name", option = ... }, got a number',
      wrong { numeric = { 3 } })
  end)

  it("says what is wrong with rows", function()
    local function wrong(declaration, columns) return message(function() encode(declaration, columns) end) end
    assert.equal('encode: column "x" is "12x" in row 1, no number; correct it, list it in missing, or use the '
      .. 'column as a category',
      wrong({ numeric = { "x" } }, { x = { 1, "12x" } }))
    assert.equal('encode: column "x" is "inf" in row 0, no finite number; correct it, list it in missing, or use '
      .. 'the column as a category',
      wrong({ numeric = { "x" } }, { x = { "inf" } }))
    assert.equal('encode: column "y" has no value in row 1; complete it, or give the column a value for missing '
      .. 'ones (missing = 0)',
      wrong({ label = "y", categorical = { "c" } }, { y = { 1, "" }, c = { "a", "b" } }))
    assert.equal('encode: id 7 of "id" in row 1; ids are 0 to 6',
      wrong({ categorical = { { "id", size = 7 } } }, { id = { 0, 7 } }))
    assert.equal('encode: the frame has no column "usr"; did you mean "user"?',
      wrong({ categorical = { "usr" } }, { user = { "a" } }))
    assert.equal('schema: label "y" is "maybe", which is neither is nor is_not',
      wrong({ label = { "y", is = "yes", is_not = "no" }, categorical = { "y" } }, { y = { "yes", "maybe" } }))
    assert.equal('schema: column "v" is "abc", no number; buckets = "log2" needs numbers',
      wrong({ numeric = { { "v", buckets = "log2" } } }, { v = { "abc" } }))
    assert.equal('schema: the transform of "c" gave a table for "a"; it must give a text, a finite number, true, '
      .. 'false or nil',
      wrong({ categorical = { { "c", transform = function() return {} end } } }, { c = { "a" } }))
    assert.matches('^schema: the transform of "c" failed on "a": .*schema_spec.lua:%d+: oh$',
      wrong({ categorical = { { "c", transform = function() error "oh" end } } }, { c = { "a" } }))
    assert.equal("schema: the frame has no rows to learn from", wrong({ categorical = { "c" } }, { c = {} }))
  end)

  it("learns anew after a try that failed, and only once after one that did not", function()
    local s = schema { label = "y", categorical = { "c" } }
    assert.has_error(function() lt.data.frame({ c = { "secret", "b" }, y = { 1, "x" } }):encode(s) end)
    assert.equal("schema: it is not fitted yet; make the training data set first: lt.data.csv(path, { schema = "
      .. "schema }), or call schema:fit(...)",
      message(function() s:features() end))
    s:fit(lt.data.frame { c = { "a", "b" }, y = { 1, 0 } })
    assert.equal(4, s:features()[1].size)
    assert.equal("schema: it is fitted already; make a new schema to learn from other rows",
      message(function() s:fit(lt.data.frame { c = { "a" }, y = { 1 } }) end))
    local rows = lt.data.frame({ c = { "b", "new" } }):encode(s, { label = false })
    for batch in rows:batch(2):iter() do
      assert.is_nil(batch.label)
      assert.same({ { 3 }, { 1 } }, batch.categorical:totable())
    end
    local fresh = schema { label = "y", categorical = { "c" } }
    assert.equal("schema: it is not fitted yet and learns from rows with labels; { label = false } is for later ones",
      message(function() lt.data.frame({ c = { "b" } }):encode(fresh, { label = false }) end))
  end)
end)
