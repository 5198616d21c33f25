-- The reader's threads: the same rows and messages whatever their number and the cutting, bounded, and easy to leave.
local ffi = require "ffi"
local C = ffi.C
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local scratch, reading = dofile(here .. "scratch.lua"), dofile(here .. "reading.lua")

local COLUMNS = { { "n", "int32" }, { "x", "float32" }, { "t", "text" } }
local N = 20000
local folder, path

-- Lines that need care at any cut: quotes, line ends in them, doubled quotes.
local function line(i)
  local text = ({ "plain", '"quoted, ""twice"""', '"two\nlines"', '""', 'in"side' })[i % 5 + 1]
  return ("%d,%d.%d,%s"):format(i, i % 977, i % 10, i % 7 == 0 and ("v" .. i) or text)
end

local function summary(frame)
  local n, stride = reading.pointer(frame, 0)
  local rows = tonumber(C.lt_frame_rows(frame))
  for row = 0, rows - 1 do
    if n[row * stride] ~= row + 1 then error("row " .. row .. " holds " .. n[row * stride]) end
  end
  return rows, ffi.string(C.lt_buffer_data(C.lt_frame_records(frame)), rows * tonumber(C.lt_frame_stride(frame)))
end

describe("csv threads", function()
  setup(function()
    folder = scratch.folder()
    local lines = { "n,x,t" }
    for i = 1, N do lines[i + 1] = line(i) end
    path = scratch.write(folder .. "/t.csv", table.concat(lines, "\n"))
    os.execute(("gzip -c %s >%s.gz"):format(path, path))
  end)
  teardown(function() scratch.remove(folder) end)

  it("change nothing: codes, order and bytes of the frame", function()
    local rows, bytes = summary((reading.read(path, { threads = 0 }, COLUMNS)))
    assert.equal(N, rows)
    for _, with in ipairs { { 1, 64 }, { 2, 100 }, { 3, 4096 }, { 8, 65536 } } do
      local more, same = summary((reading.read(path, { threads = with[1], block_bytes = with[2] }, COLUMNS)))
      assert.equal(N, more)
      assert.is_true(bytes == same, ("%d threads, blocks of %d"):format(with[1], with[2]))
    end
    local _, packed = summary((reading.read(path .. ".gz", { threads = 2, block_bytes = 5000 }, COLUMNS)))
    assert.is_true(bytes == packed)
  end)

  it("deliver blocks in order to a slow consumer within the budget", function()
    local hash = ffi.new "lt_vocabulary *[1]"
    scratch.ok(C.lt_vocabulary_hash("t", 1000, 7, hash))
    local ids = ffi.gc(hash[0], C.lt_vocabulary_release)
    local csv = reading.open(path, { threads = 3, block_bytes = 1000, queue_bytes = 4000 },
      { COLUMNS[1], { "t", "text", encoder = ids } })
    local out, next_row = ffi.new "lt_frame *[1]", 1
    while true do
      scratch.ok(C.lt_csv_next(csv, out))
      if out[0] == nil then break end
      local frame = ffi.gc(out[0], C.lt_frame_release)
      for _, n in ipairs(reading.list(frame, 0)) do
        assert.equal(next_row, n)
        next_row = next_row + 1
      end
    end
    assert.equal(N + 1, next_row)
    local info = reading.describe(ids)
    assert.same({ N, 0, 1002 }, { tonumber(info.seen), tonumber(info.unknown), tonumber(info.size) })
    scratch.ok(C.lt_csv_next(csv, out)) -- the end stays the end
    assert.is_true(out[0] == nil)
  end)

  it("report the first bad row of the file, not the first found", function()
    local lines = { "n,x,t" }
    for i = 1, N do lines[i + 1] = i % 500 == 250 and "bad,1,t" or line(i) end
    local bad = scratch.write(folder .. "/bad.csv", table.concat(lines, "\n"))
    local first = reading.refusal(bad, { threads = 0 }, COLUMNS)
    for _ = 1, 5 do
      assert.equal(first, reading.refusal(bad, { threads = 4, block_bytes = 777 }, COLUMNS))
    end
    local _, csv = reading.read(bad, { threads = 4, block_bytes = 777, skip_bad = 1 }, COLUMNS)
    assert.equal(N / 500, tonumber(reading.status(csv).bad))
    assert.equal(5, #reading.reports(csv))
    assert.equal(first, reading.reports(csv)[1])
  end)

  it("stay failed after a failure", function()
    local bad = scratch.write(folder .. "/bad2.csv", "n\nx\n")
    local csv, out = reading.open(bad, { threads = 2 }, { { "n", "int32" } }), ffi.new "lt_frame *[1]"
    scratch.failure(C.lt_csv_next(csv, out))
    assert.equal(("csv: %s: reading has failed before; open the file again"):format(bad),
      scratch.failure(C.lt_csv_next(csv, out)))
  end)

  it("end at once when the reader is closed early, also while waiting for a pipe", function()
    for threads = 0, 3 do
      local csv, out = reading.open(path, { threads = threads, block_bytes = 500, queue_bytes = 500 }, { COLUMNS[1] }),
        ffi.new "lt_frame *[1]"
      scratch.ok(C.lt_csv_next(csv, out))
      C.lt_frame_release(out[0])
      C.lt_csv_close(ffi.gc(csv, nil))
    end
    local pipe = folder .. "/pipe"
    os.execute("mkfifo " .. pipe)
    os.execute(("(printf 'n,x,t\\n1,2,z\\n'; exec sleep 20) >%s & echo $! >%s/pid"):format(pipe, folder))
    local started = os.time()
    local csv = reading.open(pipe, { threads = 2 }, { COLUMNS[1] })
    local thread_waits = ffi.new "lt_frame *[1]"
    C.lt_interrupt_request() -- as Ctrl-C does: the consumer must not wait for the pipe either
    assert.equal("data: interrupted while waiting for rows", scratch.failure(C.lt_csv_next(csv, thread_waits)))
    C.lt_interrupt_clear()
    C.lt_csv_close(ffi.gc(csv, nil))
    os.execute(("kill $(cat %s/pid)"):format(folder))
    assert.is_true(os.time() - started < 10)
  end)
end)
