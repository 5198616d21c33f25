-- Batches: contents, order, resuming at every position, ranks, prefetch, errors at their place, leaving early.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")
local ok, failure = scratch.ok, scratch.failure

local function frame_of(n, damage)
  local id, double, x, label = {}, {}, {}, {}
  for i = 1, n do id[i], double[i], x[i], label[i] = i - 1, 2 * (i - 1), (i - 1) / 4, i % 2 end
  if damage then x[damage + 1] = 0 / 0 end
  return reading.frame {
    { "label", "float32", label }, { "x", "float32", x }, { "id", "int32", id }, { "double", "int32", double } }
end

local PARTS = { { 2, 3 }, { 1 }, { 0 } } -- columns of each part: ids [rows, 2], x [rows, 1], label [rows, 1]
local function try_open(frame, o, rows)
  local parts, keep = ffi.new("lt_batch_part[3]"), {}
  for i, columns in ipairs(PARTS) do
    keep[i] = ffi.new("int32_t[?]", #columns, columns)
    parts[i - 1].columns, parts[i - 1].width, parts[i - 1].finite = keep[i], #columns, o.finite and 1 or 0
  end
  local options = ffi.new "lt_batch_options"
  for name, value in pairs(o) do if name ~= "finite" then options[name] = value end end
  local out = ffi.new "lt_batcher *[1]"
  local numbers = rows and ffi.new("int64_t[?]", #rows + 1, rows)
  local status = C.lt_batcher_open(frame, numbers, rows and #rows or 0, parts, 3, options, out)
  return status, status >= 0 and ffi.gc(out[0], C.lt_batcher_close) or nil
end
local function open(...)
  local status, batcher = try_open(...)
  ok(status)
  return batcher
end

-- The next batch as a list of ids, its other parts checked against them; nil at the end.
local function next_ids(batcher)
  local out = ffi.new "lt_batch *[1]"
  ok(C.lt_batcher_next(batcher, out))
  local batch = out[0]
  if batch == nil then return nil end
  local rows = tonumber(C.lt_batch_rows(batch))
  local ids = ffi.cast("int32_t *", C.lt_buffer_data(C.lt_batch_part_buffer(batch, 0)))
  local x = ffi.cast("float *", C.lt_buffer_data(C.lt_batch_part_buffer(batch, 1)))
  local label = ffi.cast("float *", C.lt_buffer_data(C.lt_batch_part_buffer(batch, 2)))
  local numbers = ffi.cast("int64_t *", C.lt_buffer_data(C.lt_batch_row_numbers(batch)))
  local list = {}
  for i = 0, rows - 1 do
    local id = ids[2 * i]
    list[i + 1] = id
    if ids[2 * i + 1] ~= 2 * id or x[i] ~= id / 4 or label[i] ~= (id + 1) % 2 or numbers[i] ~= id then
      error("row " .. i .. " of a batch is torn")
    end
  end
  local first, global = tonumber(C.lt_batch_first(batch)), tonumber(C.lt_batch_global_rows(batch))
  C.lt_batch_release(batch)
  return list, first, global
end
local function all(batcher)
  local batches = {}
  for ids in next_ids, batcher do batches[#batches + 1] = ids end
  return batches
end
local function flat(batches)
  local list = {}
  for _, batch in ipairs(batches) do for _, id in ipairs(batch) do list[#list + 1] = id end end
  return list
end

describe("batcher", function()
  it("delivers rows in order, the last batch short or dropped", function()
    local frame = frame_of(10)
    assert.same({ { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9 } }, all(open(frame, { batch = 4 })))
    assert.same({ { 0, 1, 2, 3 }, { 4, 5, 6, 7 } }, all(open(frame, { batch = 4, drop_last = 1 })))
    assert.same({ { 9, 1 }, { 5 } }, all(open(frame, { batch = 2 }, { 9, 1, 5 })))
    assert.same({}, all(open(frame, { batch = 2 }, {})))
    assert.equal(3, tonumber(C.lt_batcher_steps(open(frame, { batch = 4 }))))
    assert.equal(2, tonumber(C.lt_batcher_steps(open(frame, { batch = 4, drop_last = 1 }))))
    assert.equal(1, tonumber(C.lt_batcher_steps(open(frame, { batch = 4, position = 8 }))))
  end)

  it("shuffles by seed and epoch alone: threads and depth change nothing", function()
    local frame = frame_of(1000)
    local want = all(open(frame, { batch = 64, shuffle = 1, seed = 3, epoch = 2 }))
    for _, with in ipairs { { 1, 1 }, { 1, 4 }, { 3, 2 }, { 4, 16 } } do
      local got = all(open(frame, { batch = 64, shuffle = 1, seed = 3, epoch = 2, threads = with[1], depth = with[2] }))
      assert.same(want, got)
    end
    local sorted = flat(want)
    table.sort(sorted)
    assert.equal(1000, #sorted)
    for i, id in ipairs(sorted) do assert.equal(i - 1, id) end
    local other = all(open(frame, { batch = 64, shuffle = 1, seed = 3, epoch = 3 }))
    assert.is_false(pcall(assert.same, want, other))
  end)

  it("resumes at every position, twice, with prefetch full", function()
    local frame = frame_of(103)
    local options = { batch = 10, shuffle = 1, seed = 1, epoch = 5, threads = 2, depth = 5 }
    local whole = flat(all(open(frame, options)))
    for stop = 0, 11 do
      local got, batcher = {}, open(frame, options)
      for _ = 1, stop do for _, id in ipairs(next_ids(batcher)) do got[#got + 1] = id end end
      for _ = 1, 2 do
        local position = C.lt_batcher_position(batcher)
        assert.equal(#got, tonumber(position))
        C.lt_batcher_close(ffi.gc(batcher, nil))
        local again = {}
        for name, value in pairs(options) do again[name] = value end
        again.position = position
        batcher = open(frame, again)
        local ids = next_ids(batcher)
        for _, id in ipairs(ids or {}) do got[#got + 1] = id end
      end
      for _, batch in ipairs(all(batcher)) do for _, id in ipairs(batch) do got[#got + 1] = id end end
      assert.same(whole, got)
    end
  end)

  it("gives each rank its share of every global batch, and all rows once", function()
    local frame = frame_of(103)
    local whole = all(open(frame, { batch = 10, shuffle = 1, seed = 8 }))
    for ranks = 1, 4 do
      local batchers = {}
      for rank = 0, ranks - 1 do
        batchers[rank + 1] = open(frame, { batch = 10, shuffle = 1, seed = 8, rank = rank, ranks = ranks, threads = 1 })
      end
      for step, want in ipairs(whole) do
        local joined = {}
        for _, batcher in ipairs(batchers) do
          local ids, first, global = next_ids(batcher)
          assert.equal(#want, global)
          assert.equal((step - 1) * 10 + #joined, first)
          assert.is_true(#ids >= math.floor(#want / ranks) and #ids <= math.ceil(#want / ranks))
          for _, id in ipairs(ids) do joined[#joined + 1] = id end
        end
        assert.same(want, joined)
      end
      for _, batcher in ipairs(batchers) do assert.is_nil((next_ids(batcher))) end
    end
  end)

  it("delivers an error at its place, after the good batches before it", function()
    for threads = 0, 2 do
      local batcher = open(frame_of(100, 57), { batch = 10, finite = true, threads = threads, depth = 8 })
      for _ = 1, 5 do assert.equal(10, #next_ids(batcher)) end
      local out = ffi.new "lt_batch *[1]"
      assert.equal('batch: column "x" is nan in row 57; give missing values a fill, or bucket them',
        failure(C.lt_batcher_next(batcher, out)))
      assert.equal(50, tonumber(C.lt_batcher_position(batcher)))
      ok(C.lt_batcher_next(batcher, out))
      assert.is_true(out[0] == nil)
    end
  end)

  it("can be closed at any time, and batches outlive it", function()
    local frame = frame_of(50000)
    for round = 1, 60 do
      local batcher = open(frame, { batch = 100, shuffle = 1, threads = round % 4, depth = 1 + round % 7 })
      local kept
      for _ = 1, round % 5 do
        local out = ffi.new "lt_batch *[1]"
        ok(C.lt_batcher_next(batcher, out))
        if kept then C.lt_batch_release(kept) end
        kept = out[0]
      end
      C.lt_batcher_close(ffi.gc(batcher, nil))
      if kept then
        local ids = ffi.cast("int32_t *", C.lt_buffer_data(C.lt_batch_part_buffer(kept, 0)))
        assert.is_true(ids[1] == 2 * ids[0])
        C.lt_batch_release(kept)
      end
    end
  end)

  it("reuses its buffers: memory stays flat over many batches", function()
    local batcher = open(frame_of(200000), { batch = 10, threads = 1, depth = 3 })
    local seen, n = {}, 0
    local out = ffi.new "lt_batch *[1]"
    for _ = 1, 2000 do
      ok(C.lt_batcher_next(batcher, out))
      local address = tostring(C.lt_buffer_data(C.lt_batch_part_buffer(out[0], 0)))
      if not seen[address] then seen[address], n = true, n + 1 end
      C.lt_batch_release(out[0])
    end
    assert.is_true(n <= 30, n) -- at most five batches are alive, of four small buffers each
  end)

  it("keeps the frame from being changed", function()
    local frame = frame_of(10)
    local batcher = open(frame, { batch = 2, threads = 1 })
    assert.equal("frame append: a batch iterator reads this frame; close it first",
      failure(C.lt_frame_append(frame, frame)))
    C.lt_batcher_close(ffi.gc(batcher, nil))
    ok(C.lt_frame_append(frame, frame))
  end)

  it("refuses options that make no sense, and columns that cannot be batched", function()
    local frame = frame_of(10)
    local function refused(message, o, rows) assert.equal(message, failure((try_open(frame, o, rows)))) end
    refused("batch: size 0; give 1 or more", { batch = 0 })
    refused("batch: position 11 of 10 rows; the state is of other data", { batch = 1, position = 11 })
    refused("batch: rank 2 of 2; ranks count from 0", { batch = 1, rank = 2, ranks = 2 })
    refused("batch: -1 threads; give 0 to 64", { batch = 1, threads = -1 })
    refused("batch: row 10 of a frame with 10 rows (0 to 9)", { batch = 1 }, { 10 })
    local folder = scratch.folder()
    frame = reading.read(scratch.write(folder .. "/t.csv", "a,x,b,c\n1,2,u,3\n"), nil,
      { { "a", "float32" }, { "x", "float32" }, { "b", "text" }, { "c", "int32" } })
    scratch.remove(folder)
    refused('batch: column "b" is text without ids; encode it with a vocabulary first', { batch = 1 })
  end)
end)
