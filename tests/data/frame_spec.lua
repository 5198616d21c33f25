-- Frames: layout, picking rows, bucketing, and what may not be done to one that is being read.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")
local ok, failure = scratch.ok, scratch.failure
local nan = 0 / 0

local function sample()
  return reading.frame {
    { "x", "float32", { 0.5, 1.5, 2.5, 3.5 } },
    { "k", "int64", { 10, 20, 30, 40 } },
    { "id", "int32", { 7, 8, 9, 10 } },
    { "y", "float32", { -1, -2, -3, -4 } },
    { "d", "float64", { 0.1, 0.2, 0.3, 0.4 } },
  }
end
local function int64s(list) return ffi.new("int64_t[?]", #list + 1, list), #list end
local function floats(list) return ffi.new("float[?]", #list + 1, list), #list end
local function pick(fn, ...)
  local out = ffi.new "lt_frame *[1]"
  local arguments = { ... }
  arguments[#arguments + 1] = out
  ok(fn(unpack(arguments)))
  return ffi.gc(out[0], C.lt_frame_release)
end

describe("frame", function()
  it("lays wide columns first, the rest in order, each aligned", function()
    local frame, offsets = sample(), {}
    for i = 0, 4 do offsets[i + 1] = tonumber(reading.info(frame, i).offset) end
    assert.same({ 16, 0, 20, 24, 8 }, offsets)
    assert.equal(32, tonumber(C.lt_frame_stride(frame)))
    assert.equal(0, tonumber(ffi.cast("uintptr_t", C.lt_buffer_data(C.lt_frame_records(frame))) % 64))
    assert.same({ 1, -1 }, { C.lt_frame_find(frame, "k"), C.lt_frame_find(frame, "K") })
  end)

  it("selects, filters and appends rows", function()
    local frame = sample()
    local some = pick(C.lt_frame_select, frame, int64s { 3, 0, 3 })
    assert.same({ 10, 7, 10 }, reading.list(some, "id"))
    local few = pick(C.lt_frame_filter, frame, ffi.new("uint8_t[4]", { 0, 1, 0, 2 }))
    assert.same({ -2, -4 }, reading.list(few, "y"))
    ok(C.lt_frame_append(few, some))
    assert.same({ 0.2, 0.4, 0.4, 0.1, 0.4 }, reading.list(few, "d"))
    local many = sample()
    for _ = 1, 14 do ok(C.lt_frame_append(many, many)) end -- 65,536 rows: the buffer becomes a mapping and moves
    assert.equal(65536, tonumber(C.lt_frame_rows(many)))
    local x, stride = reading.pointer(many, 0)
    for row = 0, 65535 do if x[row * stride] ~= row % 4 + 0.5 then error("row " .. row) end end
  end)

  it("gathers neighbours and strangers into one matrix", function()
    local frame = sample()
    local out = ffi.new "float[6]"
    ok(C.lt_frame_gather(frame, ffi.new("int64_t[3]", { 2, 0, 1 }), 3, ffi.new("int32_t[2]", { 3, 0 }), 2, out))
    local list = {}
    for i = 0, 5 do list[i + 1] = out[i] end
    assert.same({ -3, 2.5, -1, 0.5, -2, 1.5 }, list)
  end)

  it("buckets numbers by edges: 1 for nan, then 2 + edges <= value", function()
    local values, n = floats { -5, 0, 0.5, 1, 1.5, 2, 99, nan, 1 / 0, -1 / 0 }
    local edges, count = floats { 0, 1, 2 }
    local out, list = ffi.new("int32_t[?]", n), {}
    ok(C.lt_bucketize(values, n, edges, count, out))
    for i = 0, n - 1 do list[i + 1] = out[i] end
    assert.same({ 2, 3, 3, 4, 4, 5, 5, 1, 5, 2 }, list)
    ok(C.lt_bucketize(values, n, edges, 0, out))
    assert.same({ 2, 1 }, { out[0], out[7] })
    local many, total = {}, 1000
    for i = 1, total do many[i] = i * 0.25 end
    edges, count = floats(many)
    values, n = floats { 0, 0.25, 0.3, 250, 249.9, 100 }
    ok(C.lt_bucketize(values, n, edges, count, out))
    assert.same({ 2, 3, 3, 1002, 1001, 402 }, { out[0], out[1], out[2], out[3], out[4], out[5] })
    local frame = reading.frame { { "x", "float32", { 0, nan, 5 } } }
    ok(C.lt_frame_bucketize(frame, 0, floats { 1 }))
    assert.same({ 2, 1, 3 }, reading.list(frame, 0))
    assert.equal('bucketize: column "x" is int32; only float32 columns can be',
      failure(C.lt_frame_bucketize(frame, 0, floats { 1 })))
    assert.equal("bucketize: edge 2 is 1; edges must be finite and rise",
      failure(C.lt_bucketize(values, 1, floats { 1, 1 }, 2, out)))
  end)

  it("finds quantile edges, each once and never below all values", function()
    local list = {}
    for i = 1, 100 do list[i] = i end
    list[101] = nan
    local frame = reading.frame { { "x", "float32", list } }
    local edges, count = ffi.new "float[16]", ffi.new "int64_t[1]"
    local function quantiles(buckets, rows, n)
      ok(C.lt_frame_quantiles(frame, 0, rows, n or 0, buckets, edges, count))
      local got = {}
      for i = 1, tonumber(count[0]) do got[i] = edges[i - 1] end
      return got
    end
    assert.same({ 26, 51, 76 }, quantiles(4))
    assert.same({}, quantiles(1))
    assert.same({ 2, 3 }, quantiles(9, int64s { 0, 0, 0, 0, 1, 1, 2 }))
    frame = reading.frame { { "x", "float32", { nan, nan } } }
    assert.same({}, quantiles(10))
    assert.equal("quantiles: 0 buckets; give 1 or more",
      failure(C.lt_frame_quantiles(frame, 0, nil, 0, 0, edges, count)))
  end)

  it("refuses rows and columns that are not there, and unequal frames", function()
    local frame, out = sample(), ffi.new "lt_frame *[1]"
    assert.equal("frame select: row 4 of a frame with 4 rows (0 to 3)",
      failure(C.lt_frame_select(frame, ffi.new("int64_t[1]", 4), 1, out)))
    assert.equal("frame: column number 5 of a frame with 5 columns (0 to 4)",
      failure(C.lt_frame_describe(frame, 5, ffi.new "lt_frame_info")))
    local columns = ffi.new("int32_t[2]", { 0, 1 })
    assert.equal('frame gather: column "x" is float32 and "k" is int64; the columns of one part need one dtype',
      failure(C.lt_frame_gather(frame, ffi.new("int64_t[1]", 0), 1, columns, 2, nil)))
    local other = reading.frame { { "x", "int32", { 1 } } }
    assert.equal("frame append: 1 columns cannot follow 5", failure(C.lt_frame_append(frame, other)))
    local third = reading.frame { { "x", "float32", { 1 } } }
    assert.equal('frame append: column 1 is "x" (float32) here and "x" (int32) there',
      failure(C.lt_frame_append(third, other)))
    local names = ffi.new("lt_frame_column[2]", { { "a", 0, 0 }, { "a", 0, 0 } })
    assert.equal('frame: two columns are named "a"; give each its own name', failure(C.lt_frame_new(names, 2, 1, out)))
    names[1].dtype = C.LT_BFLOAT16
    names[1].name = "b"
    assert.equal('frame: column "b" is bfloat16; float32, float64, int32, int64 or text are possible',
      failure(C.lt_frame_new(names, 2, 1, out)))
  end)

  it("refuses changes while tensors view its rows", function()
    local frame = reading.frame { { "x", "float32", { 1, 2 } } }
    local records = C.lt_frame_records(frame)
    C.lt_buffer_retain(records)
    assert.equal("bucketize: tensors view this frame's rows; release them first, or copy the frame",
      failure(C.lt_frame_bucketize(frame, 0, floats { 1 })))
    C.lt_buffer_release(records)
    ok(C.lt_frame_bucketize(frame, 0, floats { 1 }))
  end)
end)
