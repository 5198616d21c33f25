--- Data sets over tensors in memory: lt.data.from_tensors, and lt.data.idx, which reads MNIST's files into one.
local ffi = require "ffi"
local bridge = require "ltrain.ffi"
local op = require "ltrain.op"
local batches = require "ltrain.data.batch"
local rows_of = require "ltrain.data.rows"
local C, check, raise, fail = bridge.C, bridge.check, bridge.raise, bridge.fail
local f, H = op.functions, bridge.handle

local M = {}

-- ---- a source of batches, like frame_source ----

local Source, Stream = {}, {}
Source.__index, Stream.__index = Source, Stream

function Source:open(rows, n, o)
  local order = rows
  if o.shuffle then order = rows_of.shuffled(rows, n, o.seed, o.epoch, 0, n) end
  return setmetatable({ source = self, order = order, n = n, o = o, at = o.position }, Stream)
end

-- Rows first .. first + count - 1 of the order: a view where they follow one another in the tensors.
local function take(self, first, count)
  local numbers = f.empty({ count }, "int64")
  local p = numbers:data()
  for i = 0, count - 1 do p[i] = self.order and self.order[first + i] or first + i end
  local batch = setmetatable({ size = count, first = first, rows = numbers }, self.source.class)
  for _, part in ipairs(self.source.parts) do
    batch[part.name] = self.order == nil and count > 0 and f.slice(part.tensor, 1, first + 1, first + count)
      or f.index_select(part.tensor, 1, numbers)
  end
  return batch
end

function Stream:next()
  local o = self.o
  local global = math.min(o.batch, self.n - self.at)
  if global <= 0 or (global < o.batch and o.drop_last) then return nil end
  local first = self.at + math.floor(global * o.rank / o.ranks)
  local last = self.at + math.floor(global * (o.rank + 1) / o.ranks)
  local batch = take(self, first, last - first)
  batch.global_size = global
  self.at = self.at + global
  return batch
end

function Stream:position() return self.at end
function Stream:waits() return 0, 0 end
function Stream:close() end

-- ---- public ----

---A data set whose rows are the first dim of tensors: batch.x, batch.y, ... by the names given. Nothing is copied until
---a batch is made; shuffled batches are gathered, others are views.
---@param tensors table { x = tensor, y = tensor, ... }
---@return table dataset
function M.from_tensors(tensors)
  if type(tensors) ~= "table" then raise "from_tensors: give a table of tensors, { x = ..., y = ... }" end
  local names, parts, n = {}, {}, nil
  for name in pairs(tensors) do names[#names + 1] = tostring(name) end
  table.sort(names)
  for i, name in ipairs(names) do
    local t = tensors[name]
    if not ffi.istype(H, t) then fail("from_tensors: %s is a %s; it must be a tensor", name, type(t)) end
    if t.ndim_ == 0 then fail("from_tensors: %s is a single number; rows are the first dim", name) end
    if n and t:size(1) ~= n then
      fail("from_tensors: %s has %d rows and %s has %d; all need the same number", names[1], n, name, t:size(1))
    end
    n = t:size(1)
    parts[i] = { name = name, tensor = t:detach():keep() }
  end
  if not n then raise "from_tensors: no tensors; give at least one, { x = ... }" end
  local source = setmetatable({ parts = parts, class = batches.class(parts) }, Source)
  return require("ltrain.data.dataset").new(source, n, { where = "tensors" })
end

local function read_idx(path)
  bridge.expect("idx", "the file name", path, "string")
  local dtype, ndim, shape = ffi.new "int32_t[1]", ffi.new "int32_t[1]", ffi.new "int64_t[8]"
  local out = ffi.new "lt_buffer *[1]"
  check(C.lt_idx_read(path, dtype, ndim, shape, out))
  local t = H()
  local status = C.lt_from_memory(dtype[0], ndim[0], shape, C.lt_buffer_data(out[0]), out[0],
    ffi.cast("void *", C.lt_buffer_release), t)
  if status < 0 then C.lt_buffer_release(out[0]) end
  check(status)
  return t
end

---Reads an idx file (the form of MNIST), packed or not; several are joined along the first dim.
---@param path string|string[]
---@return userdata tensor of the file's type, uint8 for pictures and labels
function M.idx(path)
  if type(path) == "string" then return read_idx(path) end
  if type(path) ~= "table" or #path == 0 then raise "idx: give a file name or a list of them" end
  local list = {}
  for i, one in ipairs(path) do list[i] = read_idx(one) end
  return #list == 1 and list[1] or f.cat(list, 1)
end

return M
