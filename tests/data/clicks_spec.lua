-- Synthetic clicks: sizes, popularity, share of positives, rows computable one by one, and an AUC to be learnt.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")

local function make(o)
  local options = ffi.new "lt_clicks_options"
  C.lt_clicks_defaults(options)
  for name, value in pairs(o) do options[name] = value end
  local out, sizes = ffi.new "lt_frame *[1]", ffi.new "int64_t[1024]"
  scratch.ok(C.lt_clicks_make(options, sizes, out))
  return ffi.gc(out[0], C.lt_frame_release), sizes
end
local function bytes(frame)
  return ffi.string(C.lt_buffer_data(C.lt_frame_records(frame)), C.lt_buffer_bytes(C.lt_frame_records(frame)))
end
local function refusal(o)
  local options = ffi.new "lt_clicks_options"
  C.lt_clicks_defaults(options)
  for name, value in pairs(o) do options[name] = value end
  return scratch.failure(C.lt_clicks_make(options, ffi.new "int64_t[1024]", ffi.new "lt_frame *[1]"))
end

describe("clicks", function()
  it("share out the values: 13 fields of 100, the rest over 26, every id in range", function()
    local frame, sizes = make { rows = 20000, seed = 1 }
    local total = 0
    for f = 1, 39 do
      local size = tonumber(sizes[f - 1])
      total = total + size
      assert.is_true(size == (f <= 13 and 100 or 76873) or (f > 13 and size == 76874))
      local data, stride = reading.pointer(frame, f)
      for row = 0, 19999 do
        local id = data[row * stride]
        if id < 0 or id >= size then error(("field %d, id %d"):format(f, id)) end
      end
    end
    assert.equal(2000000, total)
    assert.equal("C39", ffi.string(reading.info(frame, 39).name))
  end)

  it("follow the popularity floor(size^u) - 1", function()
    local n = 50000
    local frame = make { rows = n, seed = 5 }
    for _, field in ipairs { { 1, 100 }, { 20, 76873 } } do
      local data, stride = reading.pointer(frame, field[1])
      for _, bound in ipairs { 1, 10, 90 } do -- P(id < bound) = log(bound + 1) / log(size)
        local below, want = 0, math.log(bound + 1) / math.log(field[2])
        for row = 0, n - 1 do if data[row * stride] < bound then below = below + 1 end end
        assert.is_true(math.abs(below / n - want) < 4.5 * math.sqrt(want * (1 - want) / n))
      end
    end
  end)

  it("have a quarter of positives for any shape and seed", function()
    for _, o in ipairs { {}, { seed = 2 }, { seed = 3, values = 5000, large_fields = 3, small_fields = 2 } } do
      o.rows = 20000
      local labels, sum = reading.list(make(o), 0), 0
      for _, y in ipairs(labels) do sum = sum + y end
      assert.is_true(math.abs(sum / 20000 - 0.25) < 0.02, sum / 20000)
    end
  end)

  it("are the same rows by any threads and from any start", function()
    local frame = make { rows = 3000, seed = 9 }
    local whole, stride = bytes(frame), tonumber(C.lt_frame_stride(frame))
    assert.equal(whole, bytes((make { rows = 3000, seed = 9, threads = 3 })))
    assert.equal(whole:sub(1000 * stride + 1, 1200 * stride), bytes((make { rows = 200, first_row = 1000, seed = 9 })))
    assert.are_not.equal(whole, bytes((make { rows = 3000, seed = 10 })))
  end)

  it("leave reserved ids unused", function()
    local frame, sizes = make { rows = 5000, seed = 1, reserved = 2 }
    local total, least = 0, 1e9
    for f = 1, 39 do
      total = total + tonumber(sizes[f - 1])
      for _, id in ipairs(reading.list(frame, f)) do
        least = math.min(least, id)
        if id >= sizes[f - 1] then error "id out of range" end
      end
    end
    assert.same({ 2000000, 2 }, { total, least })
  end)

  it("refuse shapes that leave a field without ids", function()
    assert.equal("clicks: values = 1300 leaves field 14 with 0 ids; each needs 1 or more", refusal { values = 1300 })
    assert.equal("clicks: 0 small and 0 large fields; give 1 to 1024 in all",
      refusal { small_fields = 0, large_fields = 0 })
    assert.equal("clicks: -1 rows from 0; give numbers from 0 up", refusal { rows = -1 })
    assert.equal("clicks: values = 2000, but 13 fields of 100 have 1300; give large_fields the rest",
      refusal { values = 2000, large_fields = 0 })
  end)
end)
