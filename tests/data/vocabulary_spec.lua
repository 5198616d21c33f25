-- Vocabularies: order, thresholds, unknown and missing values, hashing, the saved form, counters.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")
local ok, failure = scratch.ok, scratch.failure
local folder

local function read(values)
  return (reading.read(scratch.write(folder .. "/t.csv", "v\n" .. table.concat(values, "\n") .. "\n"), nil,
    { { "v", "text" } }))
end
local function id(vocabulary, text) return tonumber(C.lt_vocabulary_encode(vocabulary, text, #text)) end
local function value(vocabulary, number)
  local text, length, count = ffi.new "const char *[1]", ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  ok(C.lt_vocabulary_text(vocabulary, number, text, length, count))
  return ffi.string(text[0], length[0]), tonumber(count[0])
end
local function make(constructor, ...)
  local out = ffi.new "lt_vocabulary *[1]"
  local arguments = { ... }
  arguments[#arguments + 1] = out
  ok(constructor(unpack(arguments)))
  return ffi.gc(out[0], C.lt_vocabulary_release)
end
local function saved(vocabulary)
  local out = ffi.new "lt_buffer *[1]"
  ok(C.lt_vocabulary_save(vocabulary, out))
  local text = ffi.string(C.lt_buffer_data(out[0]), C.lt_buffer_bytes(out[0]))
  C.lt_buffer_release(out[0])
  return text
end
local function load(text) return make(C.lt_vocabulary_load, text, #text) end
local function refusal(text) return failure(C.lt_vocabulary_load(text, #text, ffi.new "lt_vocabulary *[1]")) end

describe("vocabulary", function()
  before_each(function() folder = scratch.folder() end)
  after_each(function() scratch.remove(folder) end)

  it("orders values by falling count, then by bytes; 0 is padding, 1 unknown", function()
    local frame = read { "b", "a", "b", '""', "c", '""', "B", "a" }
    local v = reading.fit(frame, "v", 1)
    assert.same({ 2, 3, 4, 5, 6, 1 }, { id(v, ""), id(v, "a"), id(v, "b"), id(v, "B"), id(v, "c"), id(v, "z") })
    assert.same({ "b", 2 }, { value(v, 4) })
    assert.equal(7, tonumber(reading.describe(v).size))
  end)

  it("leaves out values seen less often than min_count", function()
    local v = reading.fit(read { "b", "a", "b", "a", "c", "b" }, "v", 2)
    assert.same({ 2, 3, 1 }, { id(v, "b"), id(v, "a"), id(v, "c") })
    local info = reading.describe(v)
    assert.same({ 4, 2, 1 }, { tonumber(info.size), tonumber(info.min_count), tonumber(info.dropped) })
  end)

  it("is fitted on the given rows alone", function()
    local frame = read { "a", "b", "b", "c", "c", "c" }
    local v = reading.fit(frame, "v", 1, { 0, 1, 3 })
    assert.same({ 2, 3, 4 }, { id(v, "a"), id(v, "b"), id(v, "c") })
    v = reading.fit(frame, "v", 1, { 0, 2, 2 })
    assert.same({ 2, 3, 1 }, { id(v, "b"), id(v, "a"), id(v, "c") })
    local out = ffi.new "lt_vocabulary *[1]"
    assert.equal("vocabulary fit: row 6 of a frame with 6 rows (0 to 5)",
      failure(C.lt_vocabulary_fit(frame, 0, ffi.new("int64_t[1]", 6), 1, 1, out)))
  end)

  it("is fitted on counts alone", function()
    local path = scratch.write(folder .. "/t.csv", "v\nb\na\nb\n")
    local frame = reading.read(path, { count_only = 1 }, { { "v", "text" } })
    local v = reading.fit(frame, "v", 1)
    assert.same({ 2, 3 }, { id(v, "b"), id(v, "a") })
  end)

  it("is fitted on the rows a frame holds, not on those its dictionary has seen", function()
    local frame, out = read { "a", "b", "b", "c", "c", "c" }, ffi.new "lt_frame *[1]"
    ok(C.lt_frame_filter(frame, ffi.new("uint8_t[6]", { 1, 1, 0, 0, 0, 0 }), out))
    local few = ffi.gc(out[0], C.lt_frame_release)
    local v = reading.fit(few, "v", 1)
    assert.same({ 2, 3, 1 }, { id(v, "a"), id(v, "b"), id(v, "c") })
    ok(C.lt_frame_append(frame, few))
    ok(C.lt_frame_append(frame, few))
    v = reading.fit(frame, "v", 4) -- a: 3, b: 4, c: 3
    assert.same({ 1, 2, 1 }, { id(v, "a"), id(v, "b"), id(v, "c") })
    ok(C.lt_frame_filter(few, ffi.new("uint8_t[2]", { 0, 0 }), out))
    local none = ffi.gc(out[0], C.lt_frame_release)
    assert.equal(2, tonumber(reading.describe(reading.fit(none, "v", 1)).size))
  end)

  it("encodes a column in place, the same as while reading, and counts unknowns", function()
    local v = reading.fit(read { "a", "b", "a" }, "v", 1)
    local frame = read { "a", "x", "b", '""', "y", "a" }
    ok(C.lt_frame_encode(frame, 0, v))
    local want = { 2, 1, 3, 1, 1, 2 }
    assert.same(want, reading.list(frame, 0))
    local info = reading.describe(v)
    assert.same({ 6, 3 }, { tonumber(info.seen), tonumber(info.unknown) })
    C.lt_vocabulary_reset_counters(v)
    local again = reading.read(folder .. "/t.csv", { threads = 2, block_bytes = 64 }, { { "v", "text", encoder = v } })
    assert.same(want, reading.list(again, 0))
    info = reading.describe(v)
    assert.same({ 6, 3 }, { tonumber(info.seen), tonumber(info.unknown) })
    assert.equal('encode: column "v" holds int32, no texts; it may have been encoded before',
      failure(C.lt_frame_encode(frame, 0, v)))
  end)

  it("hashes into buckets: stable, seeded, spread", function()
    local a, b = make(C.lt_vocabulary_hash, "a", 1000, 1), make(C.lt_vocabulary_hash, "a", 1000, 2)
    local same, used, n = 0, {}, 0
    for i = 1, 5000 do
      local text = "value-" .. i
      local x, y = id(a, text), id(b, text)
      assert.is_true(x >= 2 and x < 1002)
      assert.equal(x, id(a, text))
      if x == y then same = same + 1 end
      if not used[x] then used[x], n = true, n + 1 end
    end
    assert.is_true(same < 25, same) -- 5 expected by chance
    assert.is_true(n > 980, n) -- 993 expected
    -- The ids of a saved model must mean the same in every later version; these come from the formulas in Python.
    assert.same({ 94, 727, 813, 613 },
      { id(a, ""), id(a, "x"), id(a, "12345678"), id(a, "a text of more than sixteen bytes") })
  end)

  it("comes back from its saved text, whatever the values hold", function()
    local v = make(C.lt_vocabulary_new, "na\tme\n", 3)
    local values = { "b", "a", "", "tab\tline\nback\\slash\r", "\195\164", ("long"):rep(100), "nul\0byte" }
    for i, text in ipairs(values) do ok(C.lt_vocabulary_add(v, text, #text, 100 - i)) end
    local text = saved(v)
    assert.equal("ltrain-vocabulary 1 map 3 0 7\tna\\tme\\n\n99\tb\n98\ta\n97\t\n96\ttab\\tline\\nback\\\\slash\\r\n"
      .. "95\t\195\164\n94\t" .. values[6] .. "\n93\tnul\0byte\n", text)
    local back = load(text)
    for i, want in ipairs(values) do
      assert.equal(i + 1, id(back, want))
      assert.same({ want, 100 - i }, { value(back, i + 1) })
    end
    assert.equal(text, saved(back))
    assert.equal("na\tme\n", ffi.string(reading.describe(back).name))
    for _, other in ipairs { make(C.lt_vocabulary_hash, "h", 77, -5), make(C.lt_vocabulary_whole, "w", 9) } do
      local copy = load(saved(other))
      assert.equal(saved(other), saved(copy))
      local info, info2 = reading.describe(other), reading.describe(copy)
      assert.same({ info.kind, info.first, tonumber(info.size) }, { info2.kind, info2.first, tonumber(info2.size) })
      if info.kind == 1 then assert.equal(id(other, "x"), id(copy, "x")) end
    end
  end)

  it("refuses saved texts that were cut or edited", function()
    local good = "ltrain-vocabulary 1 map 1 0 2\tv\n2\ta\n1\tb\n"
    assert.is_not_nil(load(good))
    for text, message in pairs {
      [""] = "line 1: missing",
      ["x\n"] = 'line 1: does not begin with "ltrain-vocabulary 1"',
      ["ltrain-vocabulary 1 map 1 0\tv\n"] = "line 1: a kind and three numbers should follow",
      ["ltrain-vocabulary 1 tree 1 0 2\tv\n"] = "line 1: the kind is none of map, hash, whole",
      [good:sub(1, -2)] = "line 3: has no end",
      [good:sub(1, -5)] = "line 3: missing",
      [good .. "1\tc\n"] = "line 4: more lines than the first line says",
      [good:gsub("2\ta", "two\ta")] = "line 2: no count before a tab",
      [good:gsub("\ta", "\t\\x")] = "line 2: an escape that is none of \\\\ \\n \\t \\r",
    } do
      assert.equal("vocabulary load: " .. message .. "; the text was cut or edited", refusal(text))
    end
    assert.equal('vocabulary add: "a" is in "v" twice', refusal((good:gsub("\tb", "\ta"))))
    assert.equal('vocabulary: min_count of "v" is 0; give 1 or more', refusal((good:gsub("map 1", "map 0"))))
  end)

  it("refuses arguments that make no sense", function()
    local out = ffi.new "lt_vocabulary *[1]"
    assert.equal('vocabulary: "h" has 0 hash buckets; give 1 to 2147483645',
      failure(C.lt_vocabulary_hash("h", 0, 0, out)))
    assert.equal('vocabulary: ids of "w" below 0; give a limit of 1 to 2147483647',
      failure(C.lt_vocabulary_whole("w", 0, out)))
    local whole = make(C.lt_vocabulary_whole, "w", 5)
    assert.equal('vocabulary: "w" takes whole numbers, no texts', failure(C.lt_vocabulary_encode(whole, "1", 1)))
    assert.equal('vocabulary text: "w" keeps no values; only a vocabulary fitted on data does',
      failure(C.lt_vocabulary_text(whole, 2, nil, nil, nil)))
    local v = make(C.lt_vocabulary_new, "v", 1)
    ok(C.lt_vocabulary_add(v, "a", 1, 1))
    assert.equal('vocabulary text: id 3 of "v"; values have ids 2 to 2',
      failure(C.lt_vocabulary_text(v, 3, nil, nil, nil)))
    local numbers = reading.frame { { "x", "float32", { 1 } } }
    assert.equal('vocabulary fit: column "x" holds float32; only text columns can be fitted',
      failure(C.lt_vocabulary_fit(numbers, 0, nil, 0, 1, out)))
    assert.equal("vocabulary fit: column number 4 of a frame with 1 columns (0 to 0)",
      failure(C.lt_vocabulary_fit(numbers, 4, nil, 0, 1, out)))
    local ids = reading.frame { { "w", "int32", { 4, 5 } } }
    assert.equal('encode: id 5 of "w" in row 1; ids are 0 to 4', failure(C.lt_frame_encode(ids, 0, whole)))
  end)

  it("holds many values", function()
    local path, N = folder .. "/big.csv", 300000
    local file = assert(io.open(path, "w"))
    for i = 1, N do file:write("user", i * 7919 % N + 1, "\n") end
    file:close()
    local frame = reading.read(path, { header = 0, threads = 2 }, { { "1", "text" } })
    local v = reading.fit(frame, "1", 1)
    assert.equal(N + 2, tonumber(reading.describe(v).size))
    ok(C.lt_frame_encode(frame, 0, v))
    local seen, data, stride = ffi.new("uint8_t[?]", N + 2), reading.pointer(frame, 0)
    for row = 0, N - 1 do seen[data[row * stride]] = seen[data[row * stride]] + 1 end
    for i = 2, N + 1 do if seen[i] ~= 1 then error("id " .. i .. " is used " .. seen[i] .. " times") end end
    assert.same({ "user1", 1 }, { value(v, 2) })
    assert.same({ "user10", 1 }, { value(v, 3) })
  end)
end)
