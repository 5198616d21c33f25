-- Frames out of columns of others, keys matched, text columns changed in place: the C side, by its exact messages.
local ffi = require "ffi"
local lt = require "ltrain"
local frames = require "ltrain.data.frame"
local spec = dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "places.lua")
local C = ffi.C

local function texts(columns) return lt.data.frame(columns).about.frame end
local function values(frame, column, n)
  local read = frames.reader(frame, column)
  return spec.list(n or frames.rows(frame), function(i) return read(i - 1) or false end)
end
local function rows(list) return ffi.new("int64_t[?]", #list, list) end
local function refused(status)
  assert.is_true(status < 0)
  return ffi.string(C.lt_last_error())
end
local function compose(sources, n) return spec.message(function() frames.compose(sources, n) end) end

describe("frames out of columns", function()
  it("keep texts, take rows in any order, and leave row -1 empty", function()
    local f = texts { a = { "x", "y", "z" }, b = { "1", "2", "3" } }
    C.lt_frame_parse(f, 1, C.LT_FLOAT32, C.LT_MISSING_ERROR, 0, nil)
    local g = frames.compose({ { name = "a", frame = f, column = 0, rows = rows { 2, -1, 0, 2 } },
      { name = "b", frame = f, column = 1, rows = rows { 1, 0, -1, -1 } },
        { name = "c", frame = f, column = 0, rows = rows { 0, 0, 0, 1 } } }, 4)
    assert.same({ "z", false, "x", "z" }, values(g, 0))
    local b = values(g, 1)
    assert.same({ 2, 1 }, { b[1], b[2] })
    assert.is_true(b[3] ~= b[3] and b[4] ~= b[4]) -- NaN
    assert.same({ "x", "x", "x", "y" }, values(g, 2))
    assert.same({ "x", "y" }, values(frames.compose({ { name = "a", frame = f, column = 0 } }, 2), 0))
    assert.same({ "x", "y", "z" }, values(f, 0)) -- a dictionary that got the empty text is a copy
    assert.equal(3, tonumber(frames.info(f, 0).values))
  end)

  it("refuse rows and columns that are not there", function()
    local f = texts { a = { "x", "y" } }
    assert.equal('frame compose: row 2 of "n"; it has rows 0 to 1',
      compose({ { name = "n", frame = f, column = 0, rows = rows { 2 } } }, 1))
    assert.equal('frame compose: column "n" has 2 rows and 3 are wanted',
      compose({ { name = "n", frame = f, column = 0 } }, 3))
    assert.equal("frame compose: column number 1 of a frame with 1 columns (0 to 0)",
      compose({ { name = "n", frame = f, column = 1 } }, 1))
    assert.equal('frame: two columns are named "n"; give each its own name',
      compose({ { name = "n", frame = f, column = 0 }, { name = "n", frame = f, column = 0 } }, 1))
    assert.equal("frame compose: no columns; name at least one", compose({}, 1))
    local ids = texts { a = { "4", "5" } }
    C.lt_frame_parse(ids, 0, C.LT_INT32, 0, 0, nil)
    assert.equal('frame compose: column "n" is int32, which has no form for a missing value',
      compose({ { name = "n", frame = ids, column = 0, rows = rows { -1 } } }, 1))
  end)

  it("match keys by their texts", function()
    local f, g = texts { k = { "b", "a", "q", "b" } }, texts { k = { "a", "b", "c" } }
    local found = ffi.new "int64_t[4]"
    assert.equal(0, C.lt_frame_match(f, 0, g, 0, found))
    assert.same({ 1, 0, -1, 1 }, spec.list(4, function(i) return tonumber(found[i - 1]) end))
    assert.equal('join: "b" is the "k" of rows 0 and 3; keys of the joined table must be unique',
      refused(C.lt_frame_match(g, 0, f, 0, found)))
    C.lt_frame_encode(g, 0, require("ltrain.data.learn").ready_vocabulary { encoder = "hash", name = "h", hash = 9 })
    assert.equal('join: column "k" holds int32; tables are joined on text columns, before a schema encodes them',
      refused(C.lt_frame_match(f, 0, g, 0, found)))
  end)

  it("turn texts into numbers, each distinct one once", function()
    local function parse(list, dtype, required, called)
      local f = texts { x = list }
      local status = C.lt_frame_parse(f, 0, dtype, required and C.LT_MISSING_ERROR or C.LT_MISSING_FILL, -7, called)
      return status == 0 and values(f, 0) or refused(status)
    end
    assert.same({ 1.5, -7, 1.5, 3e5 }, parse({ "1.5", "", "1.5", "3e5" }, C.LT_FLOAT32))
    assert.same({ 2147483647, -7, -5 }, parse({ "2147483647", "", "-5" }, C.LT_INT32))
    local tail = "; correct it, list it in missing, or use the column as a category"
    assert.equal('encode: column "x" is "2147483648" in row 0, beyond int32' .. tail,
      parse({ "2147483648" }, C.LT_INT32))
    assert.equal('encode: column "x" is "2.5" in row 1, no whole number' .. tail, parse({ "2", "2.5" }, C.LT_INT32))
    assert.equal('encode: column "x" is "nan" in row 0, no finite number' .. tail, parse({ "nan" }, C.LT_FLOAT32))
    assert.equal('encode: column "x" is "1e99" in row 0, beyond float32' .. tail, parse({ "1e99" }, C.LT_FLOAT32))
    assert.equal('encode: column "x" is "a" in row 40, no number' .. tail,
      parse({ "1", "a" }, C.LT_FLOAT32, false, rows { 30, 40 }))
    assert.equal('encode: column "x" has no value in row 40; complete it, or give the column a value for missing '
      .. 'ones (missing = 0)',
      parse({ "1", "" }, C.LT_FLOAT32, true, rows { 30, 40 }))
    assert.equal("encode: a text column becomes float32 or int32, not float64", parse({ "1" }, C.LT_FLOAT64))
  end)

  it("do not mind values of the dictionary that no row has", function()
    local f = texts { x = { "1", "oops", "" } }
    local g = frames.compose({ { name = "x", frame = f, column = 0, rows = rows { 0, 0 } } }, 2)
    assert.equal(0, C.lt_frame_parse(g, 0, C.LT_FLOAT32, C.LT_MISSING_ERROR, 0, nil))
    assert.same({ 1, 1 }, values(g, 0))
  end)

  it("replace distinct texts, which may then be fewer", function()
    local f = texts { x = { "a1", "b1", "a2", "" } }
    frames.put_texts(C.lt_frame_recode, f, 0, { "a", "b", "a", false }, 4)
    assert.same({ "a", "b", "a", false }, values(f, 0))
    assert.equal(3, tonumber(frames.info(f, 0).values))
    local vocabulary = ffi.new "lt_vocabulary *[1]"
    assert.equal(0, C.lt_vocabulary_fit(f, 0, nil, 0, 2, vocabulary))
    local info = ffi.new "lt_vocabulary_info"
    C.lt_vocabulary_describe(vocabulary[0], info)
    assert.equal(3, tonumber(info.size)) -- "a", seen twice
    C.lt_vocabulary_release(vocabulary[0])
    local numbers = texts { x = { "1" } }
    C.lt_frame_parse(numbers, 0, C.LT_FLOAT32, 0, 0, nil)
    assert.equal('frame recode: column "x" holds float32, no texts', refused(C.lt_frame_recode(numbers, 0, nil, nil)))
  end)
end)
