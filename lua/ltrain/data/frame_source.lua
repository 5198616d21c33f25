--- Rows of a frame as a source of batches: C gathers them, ahead of time in a thread of its own when asked to, and each
--- tensor adopts the buffer that C filled. Buffers return to the batcher's pool when a step's tensors die, so that a
--- steady loop allocates nothing.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local batches = require "ltrain.data.batch"
local C, check = bridge.C, bridge.check
local H = bridge.handle

local Source = {}
Source.__index = Source

local release = ffi.cast("void *", C.lt_buffer_release)
local open_batchers = setmetatable({}, { __mode = "k" })
local MOST_ABANDONED = 8

---@param frame any
---@param parts table[] { name =, columns = numbers from 0, names =, scalar =, dtype = }
function Source.new(frame, parts)
  local c_parts, keep = ffi.new("lt_batch_part[?]", #parts), {}
  for i, part in ipairs(parts) do
    keep[i] = ffi.new("int32_t[?]", #part.columns)
    for k, column in ipairs(part.columns) do keep[i][k - 1] = column end
    c_parts[i - 1].columns, c_parts[i - 1].width, c_parts[i - 1].finite = keep[i], #part.columns, 1
  end
  return setmetatable({ frame = frame, parts = parts, c_parts = c_parts, keep = keep, class = batches.class(parts) },
    Source)
end

local shape = ffi.new "int64_t[2]"

-- A tensor over a buffer that C filled; the tensor holds the buffer from here on.
local function adopt(buffer, dtype, ndim)
  local t = H()
  C.lt_buffer_retain(buffer)
  local status = C.lt_from_memory(dtype, ndim, shape, C.lt_buffer_data(buffer), buffer, release, t)
  if status ~= 0 then
    if status < 0 then C.lt_buffer_release(buffer) end
    check(status)
  end
  return t
end

local Stream = {}
Stream.__index = Stream

-- Loops left by break leave a batcher, with its thread and buffers, to the collector; many of them are felt.
local function make_room()
  local n = 0
  for _ in pairs(open_batchers) do n = n + 1 end
  if n >= MOST_ABANDONED then bridge.collect() end
end

---@param rows any int64_t[n] or nil
---@param n integer
---@param o table { batch, drop_last, shuffle, seed, epoch, position, rank, ranks, threads, depth }
function Source:open(rows, n, o)
  make_room()
  local options, out = ffi.new "lt_batch_options", ffi.new "lt_batcher *[1]"
  options.batch, options.drop_last, options.shuffle = o.batch, o.drop_last and 1 or 0, o.shuffle and 1 or 0
  options.seed, options.epoch, options.position = o.seed, o.epoch, o.position
  options.rank, options.ranks, options.threads, options.depth = o.rank, o.ranks, o.threads, o.depth
  check(C.lt_batcher_open(self.frame, rows, n, self.c_parts, #self.parts, options, out))
  local batcher = ffi.gc(out[0], C.lt_batcher_close)
  local stream = setmetatable({ source = self, batcher = batcher, out = ffi.new "lt_batch *[1]" }, Stream)
  open_batchers[stream] = true
  return stream
end

---The next batch, nil at the end; nil and a message when its rows are bad.
function Stream:next()
  local out = self.out
  local status = C.lt_batcher_next(self.batcher, out)
  if status < 0 then return nil, bridge.last_error() end
  local b = out[0]
  if b == nil then return nil end
  local n = C.lt_batch_rows(b)
  local batch = setmetatable({
    size = tonumber(n), first = tonumber(C.lt_batch_first(b)), global_size = tonumber(C.lt_batch_global_rows(b)),
  }, self.source.class)
  local parts = self.source.parts
  shape[0] = n
  for i = 1, #parts do
    local part = parts[i]
    shape[1] = #part.columns
    batch[part.name] = adopt(C.lt_batch_part_buffer(b, i - 1), part.dtype, part.scalar and 1 or 2)
  end
  batch.rows = adopt(C.lt_batch_row_numbers(b), C.LT_INT64, 1)
  C.lt_batch_release(b)
  return batch
end

---Rows of this epoch up to the end of the last batch.
function Stream:position() return tonumber(C.lt_batcher_position(self.batcher)) end

---How often, and how many seconds, the loop waited for a batch.
function Stream:waits()
  if not self.batcher then return 0, 0 end
  local stats = ffi.new "lt_csv_stats"
  C.lt_batcher_status(self.batcher, stats)
  return tonumber(stats.waits), stats.waited
end

function Stream:close()
  if not self.batcher then return end
  open_batchers[self] = nil
  C.lt_batcher_close(ffi.gc(self.batcher, nil))
  self.batcher = nil
end

return Source
